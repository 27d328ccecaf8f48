/* EACH(X): X(0) X(1) ... for every attempt; EACH_GROUP the same for every group. SPIN has no choice over an index. */
#if (G*S*A) == 1
#define EACH(X) X(0)
#elif (G*S*A) == 2
#define EACH(X) X(0) X(1)
#elif (G*S*A) == 3
#define EACH(X) X(0) X(1) X(2)
#elif (G*S*A) == 4
#define EACH(X) X(0) X(1) X(2) X(3)
#elif (G*S*A) == 5
#define EACH(X) X(0) X(1) X(2) X(3) X(4)
#elif (G*S*A) == 6
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5)
#elif (G*S*A) == 7
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#elif (G*S*A) == 8
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#elif (G*S*A) == 9
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif (G*S*A) == 10
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#elif (G*S*A) == 11
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#elif (G*S*A) == 12
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#elif (G*S*A) == 13
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif (G*S*A) == 14
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#elif (G*S*A) == 15
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif (G*S*A) == 16
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#else
#error more attempts than each.h counts
#endif
#if G == 1
#define EACH_GROUP(X) X(0)
#elif G == 2
#define EACH_GROUP(X) X(0) X(1)
#elif G == 3
#define EACH_GROUP(X) X(0) X(1) X(2)
#elif G == 4
#define EACH_GROUP(X) X(0) X(1) X(2) X(3)
#else
#error more groups than each.h counts
#endif
#define NEXT_0 true
#define NEXT_1 (gs[0] != NONE)
#define NEXT_2 (gs[1] != NONE)
#define NEXT_3 (gs[2] != NONE)
#define NEXT(g) NEXT_##g
