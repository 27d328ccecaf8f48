/*
 * The hand-over between the trainer and Gym, written by hand for SPIN, rule for rule after protocol/.
 *
 * One state here is one state of protocol.step: same events, same fields, no reduction. In scopes with a snapshot at most,
 * failures and lost replies; give_up=leave, reconcile=never, guard=none, drain=once, late=ignore or acknowledge.
 *
 *   G groups, S siblings, A attempts, SNAPSHOTS 0 or 1, FAILURES, LOST: the scope        (spin -DG=1 -DS=2 ...)
 *   GROUP, ON_ARRIVAL, LATE_ACK, FETCH: the policy's axes, set or not
 *   CHECK: an assertion fails, once a state, where no SYSTEM event can happen and Gym is not ready
 *   SYMMETRY: siblings of a group, and groups, are kept in order (for the benchmark; fewer states, the same verdict)
 */

#define N (G*S*A)

/* The ledger: the group, an attempt, what was seen of it. */
#define NONE 0
#define GENERATING 1
#define SEALABLE 2
#define FINALIZED 3
#define DROPPED 4

#define RESERVED 1
#define DISPATCHED 2
#define SEALED 3
#define FAILED 4
#define ABANDONED 5

#define NOTHING 0
#define SAW_RESULT 1
#define SAW_FAILURE 2
#define SAW_LOST 3
#define SAW_UNFETCHED 4
#define SAW_LATE 5

/* An execution at Gym, and the answer of its /run on the wire. */
#define RUNNING 1
#define ASKED 2
#define PARKED 3
#define COMPLETED 4

#define RESULT 1
#define FAILURE 2
#define REFUSED 3
#define LOST_REPLY 4

/* The trainer's snapshot, Gym's fence, the answer of a prepare. */
#define IDLE 0
#define FLUSH 1
#define PREPARE 2
#define PREPARING 3
#define COMMIT 4
#define CAPTURE 5
#define RESUME 6
#define ABORT 7

#define PREPARED 8
#define COMMITTED 9

#define OK 1
#define INCOMPLETE 2

byte gs[G];
byte st[N];
byte seen[N];
byte ex[N];
byte bnd[N];     /* the newest boundary, counted from 1; 0: none */
byte msg[N];
byte saved[N];   /* the boundary on disk */
bool tomb[N];
bool acked[N];
bool owed[N];

bool draining = true;
byte step = IDLE;
bool begun;      /* number: -1 or 0 */
bool asked;
byte answer;
byte failures;
bool published;

bool open = true;
byte phase = IDLE;
bool retired;    /* the only id, c0 */
bool manifest;
byte released;   /* the recorded answer of the resume, counted from 1 */

byte fails = FAILURES;
byte losses = LOST;

hidden byte a, d, e, x, y, z;
hidden byte busy, unready, bad, drop, fetches;

#define OF(n) ((n) / (S*A))
#define INDEX(n) ((n) % A)
#define LAST(n) (INDEX(n) == A - 1 || st[(n) + 1 - (INDEX(n) == A - 1)] == NONE)
#define CURRENT(n) (gs[OF(n)] == GENERATING && LAST(n) && st[n] == DISPATCHED)
#define GIVEN_UP(n) (st[n] == FAILED || st[n] == ABANDONED)
#define LIVE(n) (ex[n] == RUNNING || ex[n] == ASKED)

#include "each.h"

#define OWING (false EACH(OR_OWED))
#define OR_OWED(n) || owed[n]

/* Gym */

inline settle(expired) {
  if
  :: phase == PREPARING ->
     busy = false; unready = false;
     for (x : 0 .. N-1) {
       if
       :: LIVE(x) -> busy = true; unready = true
       :: ex[x] == COMPLETED || (ex[x] == PARKED && bnd[x] == 0) -> unready = true
       :: else
       fi
     }
     if
     :: !unready -> phase = PREPARED; answer = OK
     :: unready && busy && !expired -> skip
     :: else ->
        for (x : 0 .. N-1) { if :: ex[x] == ASKED -> ex[x] = RUNNING :: else fi }
        phase = IDLE; answer = INCOMPLETE
     fi
  :: else
  fi
}

inline begin_run(n) {
  if
  :: acked[n] || tomb[n] -> msg[n] = REFUSED
  :: else ->
     if
     :: ex[n] == COMPLETED -> msg[n] = RESULT
     :: ex[n] != NONE && ex[n] != COMPLETED -> msg[n] = REFUSED
     :: ex[n] == NONE && !open -> msg[n] = REFUSED
     :: ex[n] == NONE && open -> ex[n] = RUNNING
     fi
  fi
}

/* The trainer */

inline dispatch() {
  if
  :: step == IDLE && failures < 3 ->
     for (d : 0 .. N-1) {
       if
       :: st[d] == RESERVED && gs[OF(d)] == GENERATING -> st[d] = DISPATCHED; begin_run(d)
       :: else
       fi
     }
  :: else
  fi
}

inline owe(n) { owed[n] = true; draining = true }

inline abort_snapshot() {
  answer = NONE;
  if
  :: asked -> step = ABORT
  :: else -> step = IDLE; failures++
  fi
}

inline result_arrives(n) {
  if
  :: CURRENT(n) && seen[n] == SAW_RESULT -> skip
  :: CURRENT(n) && seen[n] != SAW_RESULT ->
     seen[n] = SAW_RESULT;
     bad = false;
#ifdef GROUP
#ifdef ON_ARRIVAL
     owe(n);
#endif
     for (y : OF(n)*S*A .. OF(n)*S*A + S*A - 1) {
       if
       :: st[y] != NONE && LAST(y) && (st[y] != DISPATCHED || seen[y] != SAW_RESULT) -> bad = true
       :: else
       fi
     }
     if
     :: !bad ->
        gs[OF(n)] = SEALABLE;
        for (y : OF(n)*S*A .. OF(n)*S*A + S*A - 1) {
          if
          :: st[y] != NONE && LAST(y) ->
             st[y] = SEALED;
#ifndef ON_ARRIVAL
             owe(y);
#endif
          :: else
          fi
        }
     :: else
     fi;
#else
     st[n] = SEALED;
     owe(n);
     for (y : OF(n)*S*A .. OF(n)*S*A + S*A - 1) {
       if
       :: st[y] != NONE && LAST(y) && st[y] != SEALED -> bad = true
       :: else
       fi
     }
     if
     :: !bad -> gs[OF(n)] = SEALABLE
     :: else
     fi;
#endif
     bad = false
  :: !CURRENT(n) && GIVEN_UP(n) ->
     seen[n] = SAW_LATE;
#ifdef LATE_ACK
     owe(n)
#endif
  :: else
  fi
}

#ifdef GROUP
#define WHOLE_GROUP true
#else
#define WHOLE_GROUP false
#endif

inline attempt_fails(n, what) {
  if
  :: CURRENT(n) ->
     drop = (INDEX(n) + 1 >= A);
     st[n] = FAILED; seen[n] = what;
     /* backwards, so that an attempt reserved here is not taken for the one that was current */
     z = OF(n)*S*A + S*A;
     do
     :: z > OF(n)*S*A ->
        z--;
        if
        :: st[z] != NONE && st[z] != SEALED && LAST(z) && (WHOLE_GROUP || drop || z == n) ->
           if
           :: st[z] != FAILED -> st[z] = ABANDONED
           :: else
           fi;
           if
           :: !drop -> st[z + 1] = RESERVED
           :: else
           fi
        :: else
        fi
     :: else -> break
     od;
     if
     :: drop -> gs[OF(n)] = DROPPED
     :: else
     fi
  :: !CURRENT(n) && GIVEN_UP(n) && seen[n] == NOTHING -> seen[n] = what
  :: else
  fi
}

inline deliver(n) {
  e = msg[n]; msg[n] = NONE;
  fetches = (CURRENT(n) && seen[n] != SAW_RESULT);
#ifdef LATE_ACK
  fetches = fetches || (!CURRENT(n) && GIVEN_UP(n));
#endif
  if
  :: e == RESULT ->
     if
     :: !fetches || ex[n] == COMPLETED -> result_arrives(n)
     :: else -> attempt_fails(n, SAW_UNFETCHED)
     fi
  :: e == FAILURE -> attempt_fails(n, SAW_FAILURE)
  :: e == REFUSED -> attempt_fails(n, SAW_LOST)
  :: e == LOST_REPLY ->
#ifdef FETCH
     if
     :: fetches && ex[n] == COMPLETED -> owe(n)
     :: else
     fi;
#endif
     attempt_fails(n, SAW_LOST)
  fi;
  dispatch()
}

inline flush() {
  bad = false;
  for (y : 0 .. N-1) { if :: owed[y] && !acked[y] && ex[y] != COMPLETED -> bad = true :: else fi }
  if
  :: bad ->
     if
     :: step == FLUSH -> abort_snapshot(); dispatch()
     :: else -> draining = false
     fi
  :: else ->
     for (y : 0 .. N-1) {
       if
       :: owed[y] -> owed[y] = false; acked[y] = true; ex[y] = NONE; bnd[y] = 0
       :: else
       fi
     }
     settle(false);
     draining = true;
     if
     :: step == FLUSH -> step = PREPARE
     :: else
     fi
  fi
}

inline prepare() {
  assert(phase == IDLE && !retired);
  step = PREPARING; asked = true; answer = NONE;
  for (x : 0 .. N-1) { if :: ex[x] == RUNNING -> ex[x] = ASKED :: else fi }
  open = false; phase = PREPARING;
  settle(false)
}

inline commit() {
  assert(phase == PREPARED && !retired);
  unready = false;
  for (x : 0 .. N-1) {
    if
    :: ex[x] != NONE && (ex[x] != PARKED || bnd[x] == 0) -> unready = true
    :: else
    fi
  }
  if
  :: unready -> step = ABORT
  :: else ->
     for (x : 0 .. N-1) { saved[x] = (ex[x] == PARKED -> bnd[x] : 0) }
     manifest = true; phase = COMMITTED; step = CAPTURE
  fi
}

inline resume() {
  assert(!retired);
  released = 1;
  for (x : 0 .. N-1) {
    if
    :: ex[x] == PARKED -> ex[x] = RUNNING; released++
    :: ex[x] == ASKED -> ex[x] = RUNNING
    :: else
    fi
  }
  retired = true; open = true; phase = IDLE;
  failures = (step == ABORT -> failures + 1 : 0);
  step = IDLE; asked = false; draining = true;
  dispatch()
}

/* What no SYSTEM event changes any more, and whether Gym could then commit. */
#define OR_MOVING(n) || LIVE(n) || msg[n] != NONE || owed[n]
#define OR_SEALABLE(g) || gs[g] == SEALABLE
#define OR_UNREADY(n) || (ex[n] != NONE && (ex[n] != PARKED || bnd[n] == 0))
#define QUIET (step == IDLE && !(false EACH(OR_MOVING)) && !(false EACH_GROUP(OR_SEALABLE)))

#ifdef SYMMETRY
/* Siblings in the order of their attempts' fields, then groups; one that is not admitted is all zeros and stays last. */
#define FIELDS 9
#define SIBLING (FIELDS * A)
#define ROW (1 + S * SIBLING)
c_code {
  static void sort_rows(uchar *rows, int count, int size) {
    uchar held[ROW];
    int i, j;
    for (i = 1; i < count; i++) {
      memcpy(held, rows + i * size, size);
      for (j = i; j > 0 && memcmp(rows + (j - 1) * size, held, size) < 0; j--)
        memcpy(rows + j * size, rows + (j - 1) * size, size);
      memcpy(rows + j * size, held, size);
    }
  }
  static void canonical(void) {
    uchar *fields[FIELDS], rows[G * ROW], *at;
    int g, s, f;
    fields[0] = now.st; fields[1] = now.seen; fields[2] = now.ex; fields[3] = now.bnd; fields[4] = now.msg;
    fields[5] = now.saved; fields[6] = now.tomb; fields[7] = now.acked; fields[8] = now.owed;
    for (g = 0; g < G; g++) {
      at = rows + g * ROW;
      *at++ = now.gs[g];
      for (s = 0; s < S; s++)
        for (f = 0; f < FIELDS; f++, at += A) memcpy(at, fields[f] + (g * S + s) * A, A);
      sort_rows(rows + g * ROW + 1, S, SIBLING);
    }
    sort_rows(rows, G, ROW);
    for (g = 0; g < G; g++) {
      at = rows + g * ROW;
      now.gs[g] = *at++;
      for (s = 0; s < S; s++)
        for (f = 0; f < FIELDS; f++, at += A) memcpy(fields[f] + (g * S + s) * A, at, A);
    }
  }
}
#define DONE ; c_code { canonical(); }
#else
#define DONE
#endif

#define OF_ATTEMPT(n) \
  :: d_step { LIVE(n) -> ex[n] = COMPLETED; msg[n] = RESULT; settle(false) DONE } \
  :: d_step { ex[n] == ASKED -> ex[n] = PARKED; bnd[n]++; settle(false) DONE } \
  :: d_step { LIVE(n) && fails > 0 -> fails--; ex[n] = NONE; bnd[n] = 0; tomb[n] = true; msg[n] = FAILURE; settle(false) DONE } \
  :: d_step { msg[n] != NONE -> deliver(n) DONE } \
  :: d_step { msg[n] != NONE && msg[n] != LOST_REPLY && losses > 0 -> losses--; msg[n] = LOST_REPLY DONE }

#define OF_GROUP(g) \
  :: d_step { gs[g] == SEALABLE -> gs[g] = FINALIZED DONE } \
  :: d_step { gs[g] == NONE && NEXT(g) && step == IDLE && failures < 3 -> gs[g] = GENERATING; \
       for (y : 0 .. S-1) { st[(g*S + y)*A] = RESERVED } \
       dispatch() DONE }

active proctype handover() {
end:
  do
  EACH(OF_ATTEMPT)
  EACH_GROUP(OF_GROUP)
  :: d_step { OWING && (draining || step == IDLE || step == FLUSH) -> flush() DONE }
  :: d_step { !begun && SNAPSHOTS > 0 && step == IDLE && failures < 3 ->
       begun = true; asked = false; answer = NONE; step = (OWING -> FLUSH : PREPARE) }
  :: d_step { step == PREPARE -> prepare() DONE }
  :: d_step { step == PREPARING && answer != NONE -> step = (answer == OK -> COMMIT : PREPARE); answer = NONE }
  :: d_step { step == PREPARE || step == PREPARING ->
       if
       :: step == PREPARING && answer == NONE -> settle(true)
       :: else
       fi;
       abort_snapshot(); dispatch() DONE }
  :: d_step { step == COMMIT -> commit() DONE }
  :: d_step { step == CAPTURE -> if :: OWING -> abort_snapshot() :: else -> step = RESUME; published = true fi }
  :: d_step { step == RESUME || step == ABORT -> resume() DONE }
#ifdef CHECK
  :: d_step { QUIET && (false EACH(OR_UNREADY)) -> assert(false) }
#endif
  od
}
