/* The collector: condemn by record, make that durable, delete. */

/* ---------------------------------------------------------------- the collector */
/* after scan: ok_ = may save c be condemned?  (the caller looks at the pins)
 * K good ones newer than c, and V verified ones among the good after c is gone. */
inline may_condemn(c) {
  m_ = NOT((1 << (c+1)) - 1);                           /* saves newer than c */
#ifdef M_LOOSE_RULE
  good = cm & NOT(qm) & m_; bits(good); ok_ = (count >= K);       /* no INTENT, and not the newest VERIFIED */
  top(vm); if :: newest == c -> ok_ = 0 :: else fi;
#else
  good = GOOD & NOT(ONLY(c));
#if TIER && !defined(M_K_COUNTS_LOCAL)
  good = good & dm;
#endif
#ifdef M_K_COUNTS_INTENDED
  bits(cm & NOT(qm) & m_); ok_ = (count >= K);
#else
  bits(good & m_); ok_ = (count >= K);
#endif
#if QV
#ifdef M_V_COUNTS_QUARANTINED
  good = cm & NOT(im) & NOT(ONLY(c));
#endif
  bits(good & vm); ok_ = ok_ && (count >= V);
#endif
#endif
#ifndef M_RESUME_UNPROTECTED
  /* the resume point of the newest attempt stays until that attempt's first COMMIT */
  if :: top_open && resume_of[top_open-1] == c && !((cm >> ((top_open-1)*S)) & ((1<<S)-1)) -> ok_ = 0 :: else fi
#else
  skip
#endif
}
/* what the rule is for, checked on the exact prefix INTENT(c) extends: I10 */
inline check_condemned(c) {
#ifdef REACH
  assert(false);
#endif
  good = GOOD & NOT(ONLY(c));
  bits(good); assert(HAS(qm, c) || count >= K);                            /* Q1 K good ones stay */
#if QV
  bits(good & vm); assert(!HAS(vm, c) || HAS(qm, c) || count >= 1);        /* Q2 never the last verified one */
#endif
#if (BADW || ROT) && !defined(NOQ3)
  whole(c); count = ok_; intact(good); assert(!count || nok >= 1);         /* Q3 never the last intact one */
#endif
#if TIER
  bits(good & dm); assert(!HAS(dm, c) || count >= 1)                       /* Q4 never the last durable one */
#endif
}
active [NGC] proctype collector() {
  byte h = 0; byte c = 0; byte q = 0; byte g = 0; byte v = 0;
#if SURV
  bit seen = 0;
#endif
#if WARM
  launched != 0;
#endif
again: true;
  atomic { (power_gen == 0 || !PWEND) -> g = power_gen; h = 0; c = 0; q = 0; v = 0; NOTE; catch_up(h) };
#if FOLD
  /* a fold goes once a newer SUMMARY, which names another, is durable */
#if POSIX && !defined(M_FOLD_REMOVED_WITHOUT_SYNC)
  atomic { g == power_gen -> sync_to(h) };
#endif
  d_step { g == power_gen -> find_fold(h); k = 0;
           do :: k < summary -> fold[k] = 0; k++ :: else -> break od; k = 0 };
#endif
  if                                         /* look at one save */
  :: atomic { c = 0 }
  :: atomic { C > 1 -> c = 1 }
  :: atomic { C > 2 -> c = 2 }
  :: atomic { C > 3 -> c = 3 }
  fi;
g_check: true;
  d_step { scan(h, c/S, c);
     v = 0;                                     /* 1 condemn and delete, 2 delete, 3 expire a pin */
     if
     :: g != power_gen || deleted[c] -> skip
     :: else ->
        may_condemn(c);
        if
        :: is_commit && !intent && ok_ && !pinned -> v = 1
        :: is_commit && !intent && ok_ && pinned -> v = 3
        :: is_commit && intent -> v = 2
        :: !is_commit && (fenced || later || aborted) -> v = 2      /* it can never be committed */
        :: else
        fi
     fi;
#ifdef M_AGE_BASED_ORPHANS
     if :: v == 0 && g == power_gen && !is_commit && !deleted[c] -> v = 2 :: else fi
#endif
  };
  if
  :: v == 0 -> goto again
  :: v == 2 -> v = 0
  :: v == 1 || v == 3 ->
#if POSIX && !defined(M_NO_DIR_SYNC)
     atomic { if :: g == power_gen -> sync_to(h) :: else -> goto again fi };
#endif
#if REREAD
     atomic { if :: SAME(h) :: else -> goto again fi };
#endif
#if FOLD
     if :: DUE(h) -> summarise(h, (g == power_gen)); atomic { g == power_gen -> catch_up(h); goto g_check } :: else fi;
#endif
     if
     :: d_step { g == power_gen && FREE(h) ->
                 if :: v == 1 -> scan(h, c/S, c); check_condemned(c) :: else fi;
                 scan(h, c/S, c);
#if SURV
                 seen = restarted;
#endif
                 expired = expired | (v == 3);
                 m_ = (v == 1 -> c : c + ((pinned & 1) -> 0 : 32));
                 q2 = (v == 1 -> INTENT : UNPIN);
                 put(h, q2, m_); q2 = 0 }
     :: atomic { g == power_gen && TAKEN(h) -> h++; catch_up(h); goto g_check }
     :: atomic { g != power_gen || h >= SLOTS -> goto again }
     fi;
     if :: v == 3 -> goto again :: else -> v = 0 fi
  fi;
#if POSIX && !defined(M_GC_WITHOUT_SYNC)
  /* make durable what the deletion rests on, other writers' records too */
  atomic { if :: g == power_gen -> sync_to(h) :: else -> goto again fi };
#if REREAD
  atomic { if :: SAME(h) :: else -> goto again fi };
#endif
#endif
  q = 0;
  do
  :: q < N -> d_step { g == power_gen ->
#if INC
        /* shard 0 of c stays while the save after it, not condemned, names it */
#ifndef M_REFERENCES_IGNORED
        ca = (c+1 < C -> c+1 : c); scan(h, 0, ca);
        if :: q == 0 && ((c+1) % S) != 0 && is_commit && !intent -> skip
           :: else -> shard[c].at[q] = 0 fi;
#else
        shard[c].at[q] = 0;
#endif
        scan(SLOTS, c/S, c); assert(newest != c);
        if :: newest != NOC -> all_durable(newest) :: else fi;
#else
#if (BADW || ROT) && !defined(NOQ3)
        whole(c); v = ok_;
#endif
        shard[c].at[q] = 0;
        scan(SLOTS, c/S, c);
#if (BADW || ROT) && !defined(NOQ3)
        good = GOOD; intact(good); assert(!v || !is_commit || nok >= 1); v = 0;   /* Q5 the last intact one is never unlinked */
#endif
#if SURV
        assert(!is_commit || intent);         /* what is deleted is still condemned */
#endif
        assert(newest != c && !pinned);       /* I4 */
#endif
        q++ }
  :: atomic { q >= N -> deleted[c] = 1;
#if DEL
              break
#else
              goto again
#endif
            }
  :: atomic { g != power_gen -> goto again }
  od;
#if DEL
  /* DELETED: a condemned save whose data is gone leaves the fold */
d_check: true;
  d_step { scan(h, c/S, c); v = (is_commit && intent) };
  if :: !v -> goto again :: else -> v = 0 fi;
#if POSIX && !defined(M_NO_DIR_SYNC)
  atomic { if :: g == power_gen -> sync_to(h) :: else -> goto again fi };
#endif
  if
  :: d_step { g == power_gen && FREE(h) -> put(h, DELETED, c) }
  :: atomic { g == power_gen && TAKEN(h) -> h++; catch_up(h); goto d_check }
  :: atomic { g != power_gen || h >= SLOTS -> skip }
  fi;
  goto again
#endif
}
