"""Offsets of words in the records, rows and counters of the columnar engine, by name.

A program is one array of linked 32-bit records beside a pool of 64-bit numbers; instances, chains and all changing
state are rows of 64-bit words. So one compiled loop serves every pattern.
"""

from __future__ import annotations

from typing import Final

NONE: Final = -(2**63)
"""No instant, no position."""

LATEST: Final = 2**63 - 1

# A pattern's automaton.
U_NUMBER: Final = 0  # the number of the unit
U_FLAGS: Final = 1
U_WINDOW: Final = 2  # the window of the whole pattern in the pool of wide numbers, ns; -1 for none
U_WINDOWS: Final = 3
"""How many windows, time events, variables and joints it has; then the words of an instance's extra block: `lo` of each
window, due instant of each time event, position of each variable's event, bound of each joint, tag and bits of each
slot."""
U_TIMERS: Final = 4
U_VARIABLES: Final = 5
U_JOINTS: Final = 6
U_EXTRA: Final = 7
U_FILTER: Final = 8  # the code of the final filter; 0 for none
U_KEYS: Final = 9  # the column of the key, if any
U_SPENT: Final = 10  # one more than the word of the closed values of inner keys; 0 without inner keys
UNIT: Final = 11

KEYED: Final = 1
MERGES: Final = 2  # flag: instances may become equal, so new ones are compared
CHOSEN: Final = 4
"""Flag: matches of one moment with the same constituents are one: its composite events have no attributes."""
SHOWN: Final = 8  # flag: matches carry bindings and registers
SHARES: Final = 16  # flag: the unit shares states with others, so its matches may have begun before it was added

# A state in which instances wait.
S_LOCAL: Final = 0  # the number of the state in its automaton
S_GROUP: Final = 1
"""The number of the group: states that wait for the same types, distinguished by the same attribute or by none."""
S_VISITS: Final = 2  # the list of pairs (type, visit): actions on events of each type in this state
S_TIMERS: Final = 3  # visits by time event; 0 for none
S_VALUE: Final = 4  # index value of the instances: -1 for that of the key, a constant's number, or -2 less a slot
STATE: Final = 5

# What events of one type do in one state, or in a start state.
V_FLAGS: Final = 0
V_UNIT: Final = 1
V_NEED: Final = 2  # maximum of instances and matches that one instance may produce
V_TESTS: Final = 3  # the list of tests of the domain
V_MOVES: Final = 4  # the list of moves
V_LOOP: Final = 5  # the move that changes an instance in place, as in `~[B]* [B]`; 0 for none
V_JOINT: Final = 6  # one more than the word of the bound that the event has to follow; 0 for none
V_OPENS: Final = 7  # one more than the column of the inner key that may be entered; 0 for none
V_INNER: Final = 8  # the number of the inner key
V_COUNT: Final = 9  # the place of the count of instances touched
VISIT: Final = 10

STRONG: Final = 1
EVERYTHING: Final = 2
ALIKE: Final = 4
SINGLE_MOVE: Final = 8  # flag: one straight move, and a domain without conditions

# A reason to be in a domain.
D_CODE: Final = 0  # the code of the condition; 0 for none
D_INITS: Final = 1  # the list of pairs (slot, code) of registers reset before the condition is evaluated
D_ENTERS: Final = 2
"""Whether the test counts only for an instance of the event's value of an inner key, which is entered."""
TEST: Final = 3

# A move.
M_LABEL: Final = 0  # the condition; 0 for none
M_FLAGS: Final = 1
M_VARIABLE: Final = 2  # the word of the variable's event in the extra block; -1 for none
M_CAPTURES: Final = 3  # the list of pairs (slot, column) of captured values; `lo` and `hi` as columns -1 and -2
M_INITS: Final = 4
M_UPDATES: Final = 5  # lists of pairs (slot, code)
M_WINDOWS: Final = 6  # the list of triples (word, length in the pool, whether it is entered)
M_TARGETS: Final = 7  # the list of targets
M_STATE: Final = 8  # the target state of a straight move; 0 for the end of the match
M_UNIT: Final = 9  # the pattern of the move
M_JOINT: Final = 10  # one more than the word of the bound for the other side of a `&`, negative on that side; 0: none
M_HANDED: Final = 11  # the list of triples (column, word, captures): variables bound by a part, depending on the column
MOVE: Final = 12

HIDDEN: Final = 2
SIMPLE: Final = 4
STRAIGHT: Final = 8
"""Flag: the move leads to one non-accepting state, or completes the match and ends, without further actions."""
ENTERS: Final = 16  # flag: the move enters an inner key

# A state an instance goes on in.
T_STATE: Final = 0  # the record of the state
T_FLAGS: Final = 1
T_CLEARS: Final = 2  # the list of pairs (word, kind) of ended scopes: `OPENED`, `SET_OFF` or `ENTERED`
T_ARMS: Final = 3  # the list of triples (word, timer, when): `when` in the pool for a delay, else -1 less its number
T_RECURS: Final = 4  # the same of time events that recur when they fire, `when` for the next
T_DELAYS: Final = 5  # the list of pairs of a word and the code of a calculated delay
TARGET: Final = 6

ACCEPTING: Final = 1
GOES_ON: Final = 2

# What may be over: a window, a time event, an inner key.
OPENED: Final = 0
SET_OFF: Final = 1
ENTERED: Final = 2

# A row of an instance.
R_NEXT: Final = 0
R_STATE: Final = 1  # the record of the state, and above it that of the pattern; -1 for a free row
R_LINK: Final = 2
R_LO: Final = 3
R_HI: Final = 4
R_LAST: Final = 5  # the position of the event matched last; negative for a time event: -1 less its number
R_KEY: Final = 6
R_TAG: Final = 7
"""The tag of the key, above it the number of uses of the row, and above that one more than the extra block."""
ROW: Final = 8

TAG_BITS: Final = 3

# A row of a match.
F_UNIT: Final = 0
F_MOMENT: Final = 1
F_LO: Final = 2
F_HI: Final = 3
F_LINK: Final = 4
F_EXTRA: Final = 5
F_KEY: Final = 6
F_TAG: Final = 7
FOUND: Final = 8

# What may begin a match, by the values it asks for, and an entry of those that ask for the same.
I_NAME: Final = 0
I_FIRST: Final = 1
I_SECOND: Final = 2
I_OFFSET: Final = 3
I_LENGTH: Final = 4
I_CAPACITY: Final = 5

E_VISIT: Final = 0
E_MOVE: Final = 1
E_EXACT: Final = 2  # whether hash and ranges decide the condition and the domain completely
E_FIRST: Final = 3
E_SECOND: Final = 4  # the columns of the ranges; -1 for none

# Instructions: an operation and an argument each.
OP_END: Final = 0
OP_CONSTANT: Final = 1
OP_COLUMN: Final = 2
OP_SLOT: Final = 3
OP_LO: Final = 4
OP_HI: Final = 5
OP_NOT: Final = 6
OP_TRUTH: Final = 7
OP_AND: Final = 8  # jump behind the argument if the condition on top does not hold, else drop it
OP_OR: Final = 9
OP_EQ: Final = 10
OP_NE: Final = 11
OP_LT: Final = 12
OP_LE: Final = 13
OP_GT: Final = 14
OP_GE: Final = 15
OP_ADD: Final = 16
OP_SUB: Final = 17
OP_MUL: Final = 18
OP_DIV: Final = 19
OP_MOD: Final = 20
OP_NEG: Final = 21
# A function of the language: its number, above it the number of arguments in 8 bits. Or -1 less a local time in 2 bits,
# above them its table of offsets; where the table has the instant, the next two instructions are left out.
OP_CALL: Final = 22
OP_SAME: Final = 23  # whether two values of a key are equal, and neither is null
OP_UNLESS: Final = 24  # drop the condition on top; jump to the argument if it does not hold
OP_JUMP: Final = 25
LARGEST: Final = 2048  # maximum length of an extra block, in words

DUE: Final = 64  # not an operation: the request to Python to compute the instant of a time event

STACK: Final = 250  # maximum depth of an expression

# Counters.
C_EVENT: Final = 0  # resume point of the loop: event, visit and instance
C_VISIT: Final = 1
C_PREVIOUS: Final = 2
C_CURRENT: Final = 3
C_PHASE: Final = 4
C_FREE: Final = 5  # the first free row; -1 for none
C_ROWS: Final = 6
C_LIVE: Final = 7
C_LINKS: Final = 8
C_EXTRAS: Final = 9
C_TIMERS: Final = 10
C_FOUND: Final = 11
C_BUCKETS: Final = 12
C_SEEN: Final = 13  # number of entries of the moment in the dedup table, and the stamp of the moment
C_STAMP: Final = 14
C_NUMBERS: Final = 15
C_TOUCHED: Final = 16
C_FIRST: Final = 17  # the position of the batch's first event
C_CALLBACK: Final = 18  # the address of the Python callback for operations outside the loop
C_DUE: Final = 19  # the instant of the current time events, ns
C_TIMES: Final = 20  # number of fired time events to which instances or matches may refer
C_CROWD: Final = 21  # number of rows or links that triggers the next compaction
C_SLACK: Final = 22  # number of instances and matches that may be created before the next check for room
C_MOST_EXTRA: Final = 23  # maximum of extra-block words, and of time events, over all patterns
C_MOST_TIMERS: Final = 24
C_TOGETHER: Final = 25  # number of instances affected by the current group of events consumed together
C_SPENT: Final = 26  # number of closed values of inner keys, and whether any pattern has inner keys
C_INNER: Final = 27
C_STOP: Final = 28  # number of touched instances beyond which the loop stops before the next event
C_ENDED: Final = 29  # whether the input has ended, so that no time event recurs
C_RECURRED: Final = 30  # number of time events that have come again
C_MOST_RECURRED: Final = 31  # how many may come between two events for each instance; 0 for any number
COUNTERS: Final = 32

# Words that hold two things.
UNIT_SHIFT: Final = 32
STATE_MASK: Final = (1 << UNIT_SHIFT) - 1
EXTRA_SHIFT: Final = 32
USED_MASK: Final = (1 << EXTRA_SHIFT) - 1
TAG_MASK: Final = (1 << TAG_BITS) - 1

NAME_SHIFT: Final = 32
HEAD_MASK: Final = (1 << NAME_SHIFT) - 1

DEAD: Final = -2  # the state of an instance moved or failed by a time event, until its row is freed

ROOT: Final = 0
ASIDE: Final = LARGEST
"""Extra blocks of no instance: that of a start, and a scratch block for registers reset while a condition is evaluated.
"""

# The two phases of an event: what waits for it, and what it begins.
WAITING: Final = 0
STARTING: Final = 1

# Why the loop stopped.
DONE: Final = 0
ROOM: Final = 1  # stop reason: an array is full
LOOK: Final = 2  # stop reason: as many instances were touched as may be before the next look at the limits
OFTEN: Final = 3  # stop reason: time events come again more often than may be

# Stages before the automata: a slot of a key.
W_HASH: Final = 0
W_NEXT: Final = 1  # the next slot of a hash, or the next free one; -1 for none
W_LIVE: Final = 2
W_COUNT: Final = 3  # number of values in the window
W_FLOATS: Final = 4  # of which are floats, infinite, and infinite and negative
W_PLUS: Final = 5
W_MINUS: Final = 6
W_LOW: Final = 7  # the first and the last limb of its sum that may not be 0
W_HIGH: Final = 8
W_FIRST: Final = 9  # positions of its first and last value in the ring; -1 for none
W_LAST: Final = 10
W_DISTINCT: Final = 11
WINDOW: Final = 12
W_VALUE: Final = W_COUNT  # of a throttled type: the interval of the event that passed last, or its `hi`

LIMBS: Final = 68
"""Limbs of a sum: as many as the range of floats needs, and for what is carried from the last."""

# A value in the ring.
G_HI: Final = 0
G_SLOT: Final = 1  # of its window; -1 where it does not matter any more
G_TAG: Final = 2
G_BITS: Final = 3
G_PREVIOUS: Final = 4  # positions of the values before and behind it in its window; or its distinct value
G_NEXT: Final = 5
RING: Final = 6

# A distinct value in a window.
D_SLOT: Final = 0
D_TAG: Final = 1
D_BITS: Final = 2
D_COUNT: Final = 3
D_NEXT: Final = 4
DISTINCT_VALUE: Final = 5

# Counters of a stage.
C_STAGE_EVENT: Final = 0  # resume point
C_SLOT_FREE: Final = 1  # the first free slot; -1 for none
C_SLOTS: Final = 2  # number of slots used, and of those with a key
C_SLOTS_LIVE: Final = 3
C_RING_BEGIN: Final = 4
C_RING_END: Final = 5
C_DISTINCT_FREE: Final = 6
C_DISTINCT: Final = 7
C_LAST: Final = 8  # end of the last event, ns
C_SWEEP: Final = 9  # number of keys at which those that no longer matter are dropped
STAGE_COUNTERS: Final = 10

# Functions over windows.
COUNT: Final = 0
SUM: Final = 1
AVG: Final = 2
MIN: Final = 3
MAX: Final = 4
FIRST_VALUE: Final = 5
DISTINCT: Final = 6
