/* What is on storage, the fold of the journal, reading and appending, and the checks on ghost state. */

/* ---------------------------------------------------------------- storage */
byte jtype[SLOTS]; byte jarg[SLOTS]; bit jdur[SLOTS];   /* journal: type, argument, durable           */
typedef Ranks { byte at[N] }
Ranks shard[C];                           /* 0 absent, 1 written and not synced, 2 durable            */
byte receipts[C];                         /* which ranks' receipts are there, a bit mask              */
byte resume_of[A];                        /* the `resume` field of each OPEN                          */
bit deleted[C];                           /* the collector finished with it                           */
#if HINT
byte hint = 0;                            /* advisory head of the journal                             */
#endif
#if FOLD
byte fold[SLOTS];                         /* the object of a slot's SUMMARY: absent, not synced, durable */
#endif
#ifdef M_PINS_OUTSIDE
byte sidepin = NOC;
#endif

/* ---------------------------------------------------------------- the world */
byte launched = 0;                        /* attempts whose processes were started, a bit mask        */
byte opened = 0;                          /* attempts whose OPEN is acknowledged                      */
byte power_gen = 0; byte born[A];         /* power generation now, and at each attempt's start        */
byte lastack = NOC;                       /* ghost: last save acknowledged to the trainer             */
bit expired = 0;                          /* ghost: a pin was expired by record                       */
#if DAMAGE
Ranks bad[C]; byte nbad = 0; byte nrot = 0;             /* ghost: damaged bytes                       */
#endif
#if FB
Ranks origin[A];                          /* ghost: which save each rank really resumed               */
#endif
#if TIER
bit lost_node = 0;
#endif
#if SURV
bit restarted = 0; byte lowdrop = SLOTS;  /* the lowest slot the restart dropped                      */
#endif

/* ---------------------------------------------------------------- folding the journal
 * scan(h, a, c) folds slots 0..h-1 as attempt a and save c see them.  The results are scratch: they live
 * only inside the step that called it.  With FOLD they are what a start sees: the newest SUMMARY whose object is
 * there stands for the slots that were folded into it, and those between them and the SUMMARY are not read. */
hidden byte k; hidden byte m_; hidden byte q2; hidden byte ca;
hidden byte newest;                       /* newest COMMIT                                            */
hidden byte top_open;                     /* newest OPEN, plus one                                    */
hidden byte fenced;                       /* an OPEN newer than a is there                            */
hidden byte is_commit; hidden byte intent; hidden byte aborted; hidden byte pinned;       /* of c     */
hidden byte later;                        /* COMMIT of a later index of c's attempt                   */
hidden byte settled;                      /* c can no longer be committed, or is                      */
hidden byte cm; hidden byte im; hidden byte qm; hidden byte vm; hidden byte dm;           /* sets of saves with COMMIT,
                                             INTENT, QUARANTINE, VERIFIED, on a durable tier          */
hidden byte good; hidden byte count; hidden byte ok_; hidden byte nok;
#if FOLD
hidden byte summary; hidden byte folded;  /* slot of that SUMMARY, and its argument                   */
hidden byte is_truth;                     /* ghost: fold every record, whatever a SUMMARY says        */
inline find_fold(h) {
  summary = 0; folded = 0; k = 0;
  do :: k < h -> if :: jtype[k] == SUMMARY && fold[k] && !is_truth && h < SLOTS -> summary = k; folded = jarg[k] :: else fi; k++
     :: else -> break od;
  k = 0
}
#endif

inline scan(h, a, c) {
  newest = NOC; top_open = 0; fenced = 0; is_commit = 0; intent = 0; aborted = 0; pinned = 0; later = 0;
  settled = 0; cm = 0; im = 0; qm = 0; vm = 0; dm = 0; k = 0;
#if FOLD
  find_fold(h);
#endif
  do
  :: k < h ->
     if
#if FOLD
     :: k >= folded && k < summary -> skip
     :: else ->
     if
#endif
     :: jtype[k] == OPEN   -> top_open = jarg[k] + 1; if :: jarg[k] > a -> fenced = 1 :: else fi
     :: jtype[k] == COMMIT -> m_ = jarg[k] & 31; newest = m_; cm = cm | ONLY(m_);
           if :: jarg[k] < 32 -> dm = dm | ONLY(m_) :: else fi;
           if :: m_ == c -> is_commit = 1; settled = 1
              :: m_ != c && m_/S == c/S && m_ > c -> later = 1; settled = 1
              :: else fi
     :: jtype[k] == INTENT     -> im = im | ONLY(jarg[k]); if :: jarg[k] == c -> intent = 1 :: else fi
     :: jtype[k] == QUARANTINE -> qm = qm | ONLY(jarg[k])
     :: jtype[k] == VERIFIED   -> vm = vm | ONLY(jarg[k])
     :: jtype[k] == PROMOTED   -> dm = dm | ONLY(jarg[k])
#if DEL
     :: jtype[k] == DELETED    ->           /* the save leaves the fold */
           m_ = NOT(ONLY(jarg[k])); cm = cm & m_; im = im & m_; qm = qm & m_; vm = vm & m_; dm = dm & m_;
           if :: jarg[k] == c -> is_commit = 0; intent = 0; settled = later :: else fi
#endif
     :: jtype[k] == ABORT -> if :: jarg[k] == c -> aborted = 1 :: else fi;
#ifndef M_S6_BLIND_TO_ABORT
           if :: jarg[k] == c -> settled = 1 :: else fi
#endif
     :: jtype[k] == PIN   -> if :: (jarg[k] & 31) == c -> pinned = pinned | ONLY(jarg[k] >> 5) :: else fi
     :: jtype[k] == UNPIN ->
#ifdef M_UNNAMED_PINS
           if :: (jarg[k] & 31) == c -> pinned = 0 :: else fi
#else
           if :: (jarg[k] & 31) == c -> pinned = pinned & (3 ^ ONLY(jarg[k] >> 5)) :: else fi
#endif
     :: else
     fi
#if FOLD
     fi
#endif
     ; k++
  :: else -> break
  od;
  k = 0
}
/* highest member of the set x -> newest; number of its members -> count */
inline top(x) { newest = NOC; k = 0; do :: k < C -> if :: HAS(x, k) -> newest = k :: else fi; k++ :: else -> break od; k = 0 }
inline bits(x) { count = 0; k = 0; do :: k < C -> if :: HAS(x, k) -> count++ :: else fi; k++ :: else -> break od; k = 0 }

/* ---------------------------------------------------------------- reading and appending */
#define FREE(h) (h < SLOTS && jtype[h] == NONE)
#define TAKEN(h) (h < SLOTS && jtype[h] != NONE)
/* a reader advances to the head, or (STALE) to any point before it */
#if STALE
inline catch_up(h) { do :: TAKEN(h) -> h++ :: break od }
#else
inline catch_up(h) { do :: TAKEN(h) -> h++ :: else -> break od }
#endif
inline sync_to(h) { k = 0; do :: k < h -> jdur[k] = 1; k++ :: else -> break od; k = 0 }
/* create of slot h: never replaces, and I7 the slot before it is there */
inline put(h, type, arg) {
  assert(h == 0 || jtype[h-1] != NONE);
  jtype[h] = type; jarg[h] = arg; jdur[h] = 1 - POSIX; h++
}
/* FOLD: a SUMMARY is due in slot h.  Its object is durable before the record, and both hold exactly 0..h-1. */
#if FOLD
#define DUE(h) (h > 0 && (h % FOLD) == 0 && h < SLOTS)
inline write_fold(h, on) { d_step { on -> if :: fold[h] == 0 -> fold[h] = 2 - POSIX :: else fi } }
inline sync_fold(h, on) { d_step { on -> if :: fold[h] == 1 -> fold[h] = 2 :: else fi } }
#ifdef M_SUMMARY_STALE
#define FOLDED(h) (h - 1)
#else
#define FOLDED(h) h
#endif
inline summarise(h, on) {
#ifndef M_SUMMARY_BEFORE_FOLD
  write_fold(h, on);
  sync_fold(h, on);
#endif
  if
  :: d_step { on && FREE(h) -> m_ = FOLDED(h); put(h, SUMMARY, m_) };
#ifdef M_SUMMARY_BEFORE_FOLD
     write_fold((h-1), on);
     sync_fold((h-1), on)
#endif
  :: d_step { on && TAKEN(h) -> h++ }
  fi
}
#endif
/* SURV: has slot h-1, re-read by name, still the hash this process holds? */
#if SURV && !defined(M_NO_REREAD_AFTER_SYNC)
#define REREAD 1
#define SAME(h) (seen == restarted || lowdrop >= h)
#define NOTE h = ((seen != restarted && lowdrop < h) -> 0 : h); seen = restarted
#else
#define REREAD 0
#if SURV
#define NOTE seen = restarted
#else
#define NOTE skip
#endif
#endif

/* ---------------------------------------------------------------- ghost checks */
/* I1: every shard a save names is there and durable */
inline all_durable(c) {
  q2 = 0;
  do :: q2 < N ->
#if INC
        if :: q2 == 0 && (c % S) != 0 -> assert(shard[c-1].at[0] == 2)
           :: else -> assert(shard[c].at[q2] == 2) fi;
#else
        assert(shard[c].at[q2] == 2);
#endif
        q2++ :: else -> break od;
  q2 = 0
}
inline all_durable_if_newest(c) { scan(SLOTS, 0, c); if :: newest == c -> all_durable(c) :: else fi; k = 0 }
#if DAMAGE
/* ok_ = save c is whole and undamaged; nok = how many of the set x are */
inline whole(c) {
  ok_ = 1; q2 = 0;
  do :: q2 < N -> if :: shard[c].at[q2] != 2 || bad[c].at[q2] -> ok_ = 0 :: else fi; q2++ :: else -> break od; q2 = 0
}
inline intact(x) { nok = 0; k = 0; do :: k < C -> if :: HAS(x, k) -> whole(k); nok = nok + ok_ :: else fi; k++ :: else -> break od; k = 0 }
#endif
#define GOOD (cm & NOT(qm) & NOT(im))     /* committed, not quarantined, not condemned                */
