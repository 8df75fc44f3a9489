/* stub_driver.h: a libcuda.so.1 without a card, which notes in whose context each call is made.
 *
 * It has STUB_CARDS cards. A context is the address of a card's own byte; memory of card n begins at
 * (n + 1) * STUB_CARD_BYTES. Any thread.
 */
#ifndef HALO_TESTS_HIP_CUDA_STUB_DRIVER_H
#define HALO_TESTS_HIP_CUDA_STUB_DRIVER_H

#include <stdint.h>

enum { STUB_CARDS = 2 };
#define STUB_CARD_BYTES ((uint64_t)1 << 32)

#pragma GCC visibility push(default)

/* The card whose context is current for the calling thread; -1 without one. */
int stub_current(void);
/* The card that was current at this thread's last call of any other function; -1: there was none. */
int stub_seen(void);
/* How often a card's context was retained. */
int stub_n_retained(int card);
/* The next call of cuCtxSetCurrent, of any thread, fails with this error. */
void stub_fail_set_current(int error);
/* As long as it is not 0, contexts cannot be retained. */
void stub_fail_retain(int error);

/* What stub_others.c calls for every function without a body in stub_driver.c. */
void stub_note(void);

#pragma GCC visibility pop

#endif
