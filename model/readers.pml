/* Those who read saves: loaders with pins, and the scrubber. */

/* ---------------------------------------------------------------- a loader: pin, read, unpin */
#if READER
#define NONCE (_pid - NGC)                /* collectors are started first                             */
active [READER] proctype loader() {
  byte h = 0; byte c = 0; byte q = 0; byte g = 0; byte v = 0;
#if WARM
  launched != 0;
#endif
  atomic { g = power_gen; catch_up(h) };
r_pick: true;
  d_step { g == power_gen -> scan(h, 0, 0); good = GOOD; top(good); c = newest };
  if :: c == NOC -> goto r_end :: else fi;
r_check: true;
  d_step { g == power_gen -> scan(h, 0, c);
#ifdef M_LOADER_TRUSTS_NO_INTENT
           v = intent                        /* DELETED took the INTENT out of the fold */
#else
           v = (!is_commit || intent)
#endif
         };
  if :: v -> goto r_pick :: else fi;
#ifdef M_PINS_OUTSIDE
  d_step { g == power_gen -> skip };         /* the pin is kept beside the journal: no order with INTENT */
#else
#if POSIX && !defined(M_NO_DIR_SYNC)
  d_step { g == power_gen -> sync_to(h) };
#endif
  if
  :: d_step { g == power_gen && FREE(h) -> m_ = c + 32*NONCE; put(h, PIN, m_) }
  :: atomic { g == power_gen && TAKEN(h) -> h++; catch_up(h); goto r_check }
  fi;
#endif
  do
  :: q < N -> d_step { g == power_gen ->
       scan(SLOTS, 0, c);
       /* I5: data vanishes only after this loader's own pin was expired in the journal */
#ifdef M_PINS_OUTSIDE
       assert(shard[c].at[q] == 2);
#else
#ifdef M_UNNAMED_PINS
       assert(shard[c].at[q] == 2 || expired);
#else
#if !INC
       assert(shard[c].at[q] == 2 || !HAS(pinned, NONCE));
#endif
#endif
#endif
       q++ }
  :: q >= N -> break
  od;
#ifndef M_PINS_OUTSIDE
u_put: true;
#if POSIX && !defined(M_UNPIN_WITHOUT_SYNC)
  d_step { g == power_gen -> sync_to(h) };
#endif
  if
  :: d_step { q >= N && g == power_gen && FREE(h) ->
              scan(h, 0, c); m_ = c + 32*NONCE;
              if :: HAS(pinned, NONCE) -> put(h, UNPIN, m_) :: else fi }
  :: atomic { q >= N && g == power_gen && TAKEN(h) -> h++; catch_up(h); goto u_put }
  fi;
#endif
r_end: true;
  d_step { h = 0; c = 0; q = 0; v = 0 }
}
#endif

/* ---------------------------------------------------------------- a scrubber: read all, VERIFIED or QUARANTINE */
#if SCRUB
active [SCRUB] proctype scrubber() {
  byte h = 0; byte c = 0; byte v = 0;
#if WARM
  launched != 0;
#endif
s_again: true;
  atomic { power_gen == 0 -> h = 0; c = 0; v = 0; catch_up(h) };
  if
  :: atomic { c = 0 }
  :: atomic { C > 1 -> c = 1 }
  :: atomic { C > 2 -> c = 2 }
  :: atomic { C > 3 -> c = 3 }
  fi;
  d_step { scan(h, 0, c); v = (is_commit && !intent && !HAS(qm, c)) };
  if :: !v -> goto s_again :: else fi;
  /* read every chunk: 1 good, 2 damaged, 0 vanished */
  d_step { whole(c); v = ok_; if :: !v -> v = 2; q2 = 0;
             do :: q2 < N -> if :: shard[c].at[q2] != 2 -> v = 0 :: else fi; q2++ :: else -> break od; q2 = 0
           :: else fi };
  if :: v == 0 -> goto s_again :: else fi;
s_check: true;
  d_step { scan(h, 0, c); if :: (intent || HAS(qm, c) || !is_commit) -> v = 0
                             :: else -> if :: v == 1 && HAS(vm, c) -> v = 0 :: else fi fi };
  if :: v == 0 -> goto s_again :: else fi;
#if POSIX
  atomic { power_gen == 0 -> sync_to(h) };
#endif
  if
  :: d_step { power_gen == 0 && FREE(h) -> q2 = (v == 1 -> VERIFIED : QUARANTINE); put(h, q2, c); q2 = 0 }
  :: atomic { power_gen == 0 && TAKEN(h) -> h++; catch_up(h); goto s_check }
  fi;
#if POSIX
  atomic { power_gen == 0 -> sync_to(h) };
#endif
  goto s_again
}
#endif
