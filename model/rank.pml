/* A rank of an attempt: it opens (rank 0), loads, saves and commits. */

/* ---------------------------------------------------------------- a rank: open, load, save, commit */
#define ALIVE (born[a] == power_gen)
proctype rank(byte a; byte r) {
  byte h = 0; byte s = 0; byte c = 0; byte q = 0; byte v = 0;
#if SURV
  bit seen = 0;
#endif
  HAS(launched, a);
#if WARM
  if :: a == 0 -> s = WARM; goto saving :: else fi;
#endif
  if
  :: r == 0 ->
     /* open: one record fences the attempts before it and names what all ranks resume from */
#if HINT
          if
          :: d_step { ALIVE -> h = hint }
          :: d_step { ALIVE -> h = SLOTS - 1 }                         /* another run's, or rotten */
          fi;
#ifndef M_HINT_TRUSTED
          d_step { ALIVE -> if :: h > 0 && jtype[h-1] == NONE -> h = 0 :: else fi };
#endif
#endif
o_read:   atomic { ALIVE -> NOTE; catch_up(h) };
          d_step { ALIVE -> scan(h, a, 0); v = (fenced || (cm && !GOOD)) };   /* stand down, or refuse */
          if :: v -> goto stop :: else fi;
#if POSIX && !defined(M_NO_DIR_SYNC)
          d_step { ALIVE -> sync_to(h) };
#endif
#if REREAD
          atomic { ALIVE -> if :: SAME(h) :: else -> h = 0; goto o_read fi };
#endif
#if FOLD
          if :: DUE(h) -> summarise(h, ALIVE); goto o_read :: else fi;
#endif
          if
          :: d_step { ALIVE && FREE(h) ->
                      scan(h, a, 0); good = GOOD; top(good);
#if ROLL
                      if :: newest != NOC -> good = good & NOT(ONLY(newest)); m_ = newest; top(good);
                            if :: newest == NOC -> newest = m_ :: else fi
                         :: else fi;                    /* the newest was rejected: back by one */
#endif
                      resume_of[a] = newest;
#if SURV
                      seen = restarted;
#endif
                      put(h, OPEN, a);
#if HINT && defined(M_HINT_BEFORE_SYNC)
                      hint = h
#endif
                      }
          :: atomic { ALIVE && TAKEN(h) -> h++; catch_up(h); goto o_read }
          fi;
#if REREAD
          d_step { ALIVE -> sync_to(h) };
          atomic { ALIVE -> if :: SAME(h) :: else -> h = 0; goto o_read fi };
          d_step { ALIVE -> opened = opened | ONLY(a) }
#else
          d_step { ALIVE -> sync_to(h); opened = opened | ONLY(a);
#if HINT
                   hint = h
#endif
                 }
#endif
  :: else -> HAS(opened, a) && ALIVE
  fi;
  /* I6: the owner of the newest attempt loads its resume point without a pin */
  if
  :: resume_of[a] != NOC ->
     do :: q < N -> d_step { ALIVE ->
#if INC
            if :: q == 0 && (resume_of[a] % S) != 0 -> m_ = resume_of[a] - 1 :: else -> m_ = resume_of[a] fi;
            v = (shard[m_].at[q] == 2); scan(SLOTS, a, 0); assert(v || fenced);
#else
            scan(SLOTS, a, 0);
            assert(shard[resume_of[a]].at[q] == 2 || fenced
#if TIER
                   || lost_node
#endif
#if QV
                   || HAS(qm, resume_of[a])              /* condemned by somebody else meanwhile */
#endif
                  );
#endif
            q++ }
        :: d_step { q >= N -> q = 0; v = 0 } -> break
     od
  :: else
  fi;
#if FB
  /* the resuming rank finds damage: QUARANTINE, and the attempt ends; the next OPEN chooses */
  skip;
  d_step { c = resume_of[a] };
fb_try: true;
  if
  :: c == NOC -> skip
  :: else ->
     d_step { ALIVE -> v = bad[c].at[r] };
     if
     :: v ->
fb_read: true; atomic { ALIVE -> catch_up(h) };
        d_step { ALIVE -> scan(h, a, c); v = fenced; q = HAS(qm, c) };
        if :: v -> goto stop :: else fi;
        if
        :: q -> q = 0
        :: else ->
           if
           :: d_step { ALIVE && FREE(h) -> put(h, QUARANTINE, c) }
           :: atomic { ALIVE && TAKEN(h) -> h++; catch_up(h); goto fb_read }
           fi
        fi;
#ifdef M_FALLBACK_INSIDE_ATTEMPT
        d_step { ALIVE -> scan(h, a, 0); good = GOOD; top(good); c = newest; v = 0; q = 0 };
        goto fb_try
#else
        goto stop
#endif
     :: else
     fi
  fi;
  d_step { origin[a].at[r] = c; c = 0; v = 0; q = 0 };
#endif
#if WARM
saving: true;
#endif
  do
  :: s < S ->
     c = a*S + s;
     /* shard, sync, receipt */
#if INC
     if :: r == 0 && s > 0 -> skip        /* shard 0 of the save before it is named again */
        :: else ->
#endif
#ifdef M_RECEIPT_BEFORE_FSYNC
     atomic { ALIVE -> shard[c].at[r] = 1; receipts[c] = receipts[c] | ONLY(r) };
     d_step { ALIVE -> if :: shard[c].at[r] == 1 -> shard[c].at[r] = 2 :: else fi };
#else
#if BADW
     if
     :: d_step { ALIVE -> shard[c].at[r] = 2 - POSIX }
     :: d_step { ALIVE && nbad < BADW -> nbad++; bad[c].at[r] = 1; shard[c].at[r] = 2 - POSIX }
     fi;
#else
     d_step { ALIVE -> shard[c].at[r] = 2 - POSIX };
#endif
#if POSIX
     d_step { ALIVE -> if :: shard[c].at[r] == 1 -> shard[c].at[r] = 2 :: else fi };
#endif
#endif
#if INC
     fi;
#endif
     d_step { ALIVE -> receipts[c] = receipts[c] | ONLY(r) };
     if
     :: skip -> goto next                 /* leave the commit to another rank */
     :: skip
     fi;
#ifdef M_PARTIAL
     (ALIVE && receipts[c] != 0);
#else
     (ALIVE && receipts[c] == ALL);
#endif
     /* commit: read to the head, decide, sync what is there, create the next slot */
c_read: atomic { ALIVE -> NOTE; catch_up(h) };
c_check: true;
     d_step { ALIVE -> scan(h, a, c); v = (fenced -> 2 : (settled -> 1 : 0));
#if INC
        if :: v == 0 && s > 0 -> ca = c-1; scan(h, a, ca); v = ((!is_commit || intent) -> 1 : 0);
#if QV && !defined(M_REFERENCE_TO_QUARANTINED)
           v = (HAS(qm, ca) -> 1 : v)
#endif
           :: else fi
#endif
     };
     if :: v == 2 -> goto stop :: v == 1 -> v = 0; goto next :: else fi;
#if POSIX && !defined(M_NO_DIR_SYNC)
     d_step { ALIVE -> sync_to(h) };
#endif
#if REREAD
     atomic { ALIVE -> if :: SAME(h) :: else -> h = 0; goto c_read fi };
#endif
#if FOLD
     if :: DUE(h) -> summarise(h, ALIVE); goto c_read :: else fi;
#endif
c_put: true;
     if
     :: d_step { ALIVE && FREE(h) ->
#if FOLD
                 is_truth = 1;
#endif
                 scan(h, a, c); assert(!fenced && !settled); assert(!aborted);   /* I2, I3, I11 */
#if FOLD
                 is_truth = 0;
#endif
#if SURV
                 seen = restarted;
#endif
#if FB
                 k = 0; do :: k < N -> assert(origin[a].at[k] == origin[a].at[0]); k++ :: else -> break od; k = 0;  /* I9 */
#endif
#if INC && QV
                 assert(s == 0 || (HAS(cm, c-1) && !HAS(im, c-1) && !HAS(qm, c-1)));      /* I15 */
#endif
                 put(h, COMMIT, c);
#if HINT && defined(M_HINT_BEFORE_SYNC)
                 hint = h;
#endif
                 all_durable(c) }                                  /* I1 */
#if TIER
     :: d_step { ALIVE && FREE(h) && !lost_node ->
                 scan(h, a, c); assert(!fenced && !settled); put(h, COMMIT, c + 32); all_durable(c) }
#endif
#ifdef M_RENAME_INSTEAD_OF_LINK
     :: d_step { ALIVE && TAKEN(h) -> put(h, COMMIT, c); scan(h, a, c); assert(!fenced); all_durable(c) }
#else
#ifdef M_NO_FENCE
     :: atomic { ALIVE && TAKEN(h) -> h++; goto c_put }
#else
     :: atomic { ALIVE && TAKEN(h) -> h++; catch_up(h); goto c_check }
#endif
#endif
     fi;
#if REREAD
     d_step { ALIVE -> sync_to(h) };
     atomic { ALIVE -> if :: SAME(h) :: else -> h = 0; goto c_read fi };
#endif
     /* sync, and only now acknowledge */
     d_step { ALIVE -> sync_to(h); lastack = c;
#if HINT
              hint = h;
#endif
#if SURV
              scan(SLOTS, 0, c); assert(is_commit);       /* I12: what is acknowledged is in the journal */
#endif
#if !TIER
              all_durable_if_newest(c)
#endif
            };
next: true; d_step { s++; c = 0 }
  :: else -> break
  od;
stop: true;
     d_step { h = 0; s = 0; c = 0; q = 0; v = 0 }
}
