/* The commit protocol of Unbroken: one write-once journal and write-once shards.
 *
 * A save c = (attempt c/S, index c%S) is N shards, N receipts and one COMMIT record.  The index stands for
 * step and try together: after ABORT of one index the attempt goes on with the next one.
 *
 * What the model lets happen:
 *   - a process stops for good at any instruction: it is simply never scheduled again, and every prefix
 *     of every process is explored;
 *   - a process of an earlier attempt wakes up late (zombie, late request): it stays schedulable;
 *   - POSIX: records and shards are durable only after a sync.  Power loss ends every running process and
 *     drops any subset of what was not synced;
 *   - SURV: the storage server restarts, unsynced names are lost, and the clients survive;
 *   - damage when written (BADW) or at any later time (ROT), loss of a node (TIER), a hint that lies (HINT).
 * What it refuses to be: a model of time, of bytes, or of liveness.  README.md has the meaning of every
 * assertion, the sizes that are checked and what is left out; check.py runs them.
 *
 * With all scenario flags off this is the journal, the ranks and one collector under the rules as they
 * are implemented.  Every departure from the rules is a mutant M_*, and check.py wants each one to fail.
 *
 * Sizes      N ranks, A attempts, S saves per attempt, WARM saves of attempt 0 already acknowledged
 * Retention  K good saves stay, V of them verified (V counts only where VERIFIED records exist)
 * Processes  NGC collectors, READER loaders with pins, SCRUB scrubbers, ABORTS a coordinator that gives up
 * Storage    POSIX, POWER power loss, PWEND 1 = stop after it / 0 = the next attempt goes on, STALE reads
 * Faults     BADW shards damaged when written, ROT shards damaged later, FB damage met by a resuming rank,
 *            TIER node-local commits and node loss, HINT head hints, ROLL resume from an older save,
 *            SURV server restart
 * Other      INC save s>0 names shard 0 of the save before it, DEL DELETED records, FOLD a SUMMARY is due in each slot
 *            that is a multiple of it, REACH condemning at all fails,
 *            NOQ3 leaves out the checks on ghost damage so that the journal-only ones are what is tested */
#ifndef N
#define N 2
#endif
#ifndef A
#define A 2
#endif
#ifndef S
#define S 1
#endif
#ifndef WARM
#define WARM 0
#endif
#ifndef K
#define K 1
#endif
#ifndef V
#define V 1
#endif
#ifdef M_VERIFIED_MIN_ZERO
#undef V
#define V 0
#endif
#ifndef NGC
#define NGC 1
#endif
#ifndef READER
#define READER 0
#endif
#ifndef SCRUB
#define SCRUB 0
#endif
#ifndef ABORTS
#define ABORTS 0
#endif
#ifndef POSIX
#define POSIX 1
#endif
#ifndef POWER
#define POWER POSIX
#endif
#ifndef PWEND
#define PWEND 1
#endif
#ifndef STALE
#define STALE 0
#endif
#ifndef BADW
#define BADW 0
#endif
#ifndef ROT
#define ROT 0
#endif
#ifndef FB
#define FB 0
#endif
#ifndef TIER
#define TIER 0
#endif
#ifndef HINT
#define HINT 0
#endif
#ifndef ROLL
#define ROLL 0
#endif
#ifndef SURV
#define SURV 0
#endif
#ifndef INC
#define INC 0
#endif
#ifndef DEL
#define DEL 0
#endif
#ifndef FOLD
#define FOLD 0
#endif

#define C (A*S)                           /* saves, at most 8: sets of saves are bit masks            */
#define ALL ((1<<N)-1)
#define NOC 99                            /* no save                                                  */
#if SCRUB || FB
#define QV 1                              /* QUARANTINE and VERIFIED records exist                    */
#else
#define QV 0
#endif
#define DAMAGE (BADW || ROT || SCRUB || FB)
#define FACTS (A + C + C + 1 + 2*READER + 2*C*QV + ABORTS + C*TIER + C*DEL)
#if FOLD
#define SLOTS (FACTS + FACTS/(FOLD-1) + 1)
#else
#define SLOTS FACTS
#endif
#define ONLY(c) (1 << (c))
#define NOT(x) (255 ^ (x))
#define HAS(x, c) (((x) >> (c)) & 1)

/* record types */
#define NONE 0
#define OPEN 1
#define COMMIT 2                          /* argument c; c + 32 = on the tier of one node only        */
#define INTENT 3
#define PIN 4                             /* argument c + 32 * nonce                                  */
#define UNPIN 5
#define QUARANTINE 6
#define VERIFIED 7
#define ABORT 8
#define PROMOTED 9
#define DELETED 10
#define SUMMARY 11                        /* argument: how many slots the fold that it names holds      */

#include "journal.pml"
#include "rank.pml"
#include "collector.pml"
#include "readers.pml"
#include "faults.pml"

/* ---------------------------------------------------------------- start */
init {
  byte i = 0; byte j = 0;
  atomic {
    do :: i < A -> resume_of[i] = NOC; j = 0;
          do :: j < N -> run rank(i, j); j++ :: else -> break od; i++
       :: else -> break od;
#if WARM
    /* attempt 0 is open and its first WARM saves are acknowledged, some of them damaged when written */
    jtype[0] = OPEN; jdur[0] = 1; opened = 1; lastack = WARM - 1; i = 0;
    do :: i < WARM -> jtype[i+1] = COMMIT; jarg[i+1] = i; jdur[i+1] = 1; receipts[i] = ALL; j = 0;
          do :: j < N -> shard[i].at[j] = 2;
#if BADW
                         if :: nbad < BADW -> bad[i].at[j] = 1; nbad++ :: skip fi;
#endif
                         j++
             :: else -> break od; i++
       :: else -> break od;
#endif
    launched = 1; i = 1; j = 0
  };
  do :: i < A -> d_step { (power_gen == 0 || !PWEND) -> born[i] = power_gen; launched = launched | ONLY(i); i++ } :: else -> break od
}
