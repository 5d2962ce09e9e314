/* What goes wrong: damage, a save given up, a node lost, a storage server restarted, power lost. */

/* ---------------------------------------------------------------- damage at any time */
#if ROT
active proctype rot() {
  byte i = 0;
#if WARM
  launched != 0;
#endif
  do
  :: atomic { i < C -> i++ }
  :: d_step { i < C && nrot < ROT && shard[i].at[0] == 2 && !bad[i].at[0] -> bad[i].at[0] = 1; nrot++; i = 0 }
  :: nrot >= ROT || i >= C -> break
  od; i = 0
}
#endif

/* ---------------------------------------------------------------- a coordinator that gives one save up */
#if ABORTS
active proctype aborter() {
  byte h = 0; byte c = 0; byte v = 0;
#if WARM
  launched != 0;
#endif
  if
  :: atomic { c = 0 }
  :: atomic { C > 1 -> c = 1 }
  :: atomic { C > 2 -> c = 2 }
  fi;
a_check: true;
  atomic { power_gen == 0 -> catch_up(h) };
  d_step { scan(h, c/S, c); v = (fenced || settled || aborted) };
  if :: v -> goto a_end :: else fi;
#if POSIX
  atomic { power_gen == 0 -> sync_to(h) };
#endif
  if
  :: d_step { power_gen == 0 && FREE(h) -> scan(h, c/S, c); assert(!is_commit); put(h, ABORT, c) }      /* I11 */
  :: atomic { power_gen == 0 && TAKEN(h) -> h++; catch_up(h); goto a_check }
  fi;
a_end: true; d_step { h = 0; c = 0; v = 0 }
}
#endif

/* ---------------------------------------------------------------- tiers: copy to the durable one; lose the node */
#if TIER
active proctype promoter() {
  byte h = 0; byte c = 0; byte v = 0;
#if WARM
  launched != 0;
#endif
  do
  :: c < C ->
p_check: atomic { catch_up(h) };
     d_step { scan(h, 0, c); v = (is_commit && !intent && !HAS(dm, c) && !lost_node) };
     if :: !v -> c++; goto p_next :: else fi;
     if
     :: d_step { FREE(h) && !lost_node -> put(h, PROMOTED, c) }
     :: atomic { TAKEN(h) -> goto p_check }
     :: atomic { lost_node -> break }
     fi;
p_next: true
  :: c >= C -> break
  od; h = 0; c = 0; v = 0
}
active proctype node_loss() {
  byte i = 0;
#if WARM
  launched != 0;
#endif
  d_step { !lost_node -> lost_node = 1; scan(SLOTS, 0, 0);
    good = cm & NOT(dm); i = 0; q2 = 0;
    do :: i < C -> q2 = 0; do :: q2 < N -> if :: HAS(good, i) -> shard[i].at[q2] = 0 :: else fi; q2++ :: else -> break od; i++ :: else -> break od;
    i = 0; q2 = 0 }
}
#endif

/* ---------------------------------------------------------------- the storage server restarts */
#if SURV || POWER
inline drop_unsynced() {
  do
  :: i < SLOTS ->
     if
     :: jtype[i] != NONE && jdur[i] == 0 -> jtype[i] = NONE; jarg[i] = 0;
#if SURV
        if :: lowdrop > i -> lowdrop = i :: else fi
#endif
     :: jtype[i] != NONE && jdur[i] == 0 -> jdur[i] = 1
     :: else
     fi; i++
  :: else -> break
  od;
  i = 0
}
#endif
#if SURV
active proctype restart() {
  byte i = 0;
#if WARM
  launched != 0;
#endif
  atomic { restarted == 0 -> restarted = 1; drop_unsynced() }
}
#endif

/* ---------------------------------------------------------------- power loss */
#if POWER
active proctype power() {
  byte i = 0; byte j = 0;
#if WARM
  launched != 0;
#endif
  atomic {
    power_gen == 0 -> power_gen = 1;
    drop_unsynced();
    do :: i < C -> j = 0;
          do :: j < N -> if :: shard[i].at[j] == 1 -> shard[i].at[j] = 0 :: shard[i].at[j] == 1 -> shard[i].at[j] = 2 :: else fi; j++
             :: else -> break od; i++
       :: else -> break od;
#if FOLD
    i = 0; j = 0;                             /* I16: the newest SUMMARY names a fold that is there */
    do :: i < SLOTS -> if :: fold[i] == 1 -> fold[i] = 0 :: fold[i] == 1 -> fold[i] = 2 :: else fi;
                       if :: jtype[i] == SUMMARY -> j = i :: else fi; i++
       :: else -> break od;
    assert(j == 0 || fold[j] == 2);
    j = 0;
#endif
    i = 0;                                    /* I7: no hole in the journal */
    do :: i < SLOTS-1 -> assert(!(jtype[i] == NONE && jtype[i+1] != NONE)); i++ :: else -> break od;
#if HINT
    assert(hint == 0 || jtype[hint-1] != NONE);           /* I14: the hint names a record that is there */
#endif
    ca = (lastack == NOC -> 0 : lastack); scan(SLOTS, 0, ca);
#if DEL
    assert(lastack == NOC || is_commit || deleted[ca]);
#else
    assert(lastack == NOC || is_commit);      /* I3: an acknowledged commit survives */
#endif
    i = 0;                                    /* I1: every committed save that is not condemned is whole */
    do :: i < C -> scan(SLOTS, 0, i); if :: is_commit && !intent -> all_durable(i) :: else fi; i++
       :: else -> break od;
    i = 0; j = 0
  }
}
#endif
