/* link_priv.h: the connection to the worker: frames out in order, answers in.
 *
 * Requests without an answer are gathered and sent together; the first after a pause goes at once, so that the GPU does
 * not wait for the client. While the socket takes nothing, answers are read: the worker stops reading when its own
 * answers are not taken. Nothing is allocated after open, unless the channel encrypts.
 *
 * Threads: all functions are called with `lock` held. halo_link_step() releases it while it waits.
 * Errors: a negative errno that is also kept in `error`: the link is lost and stays so. -ETIMEDOUT: an answer is owed
 * and no byte has come for io_ms, a ping sent half way included.
 */
#ifndef HALO_HIP_REMOTE_LINK_PRIV_H
#define HALO_HIP_REMOTE_LINK_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <hip_remote/channel.h>
#include <hip_remote/codec.h>

#define HALO_LINK_OUT_BYTES (64u << 10)
#define HALO_LINK_PENDING_MAX 4095u /* answers owed at once; more are waited for */

/* What becomes of an answer. It comes once, in halo_link_step() or halo_link_poll() of any thread, or never, when the
 * link is lost. `tag` is the caller's. Must not send. */
typedef void halo_link_take_fn(void *ud, uint64_t tag, const union halo_remote_reply *reply);

struct halo_link_answer {
    halo_link_take_fn *take; /* NULL: nothing to do */
    void *ud;
    uint64_t tag;
    uint8_t *to; /* where the answer's data goes: exactly n bytes */
    uint32_t n;
};

struct halo_link_pending {
    uint32_t id; /* 0: free */
    uint16_t op;
    struct halo_link_answer answer;
};

struct halo_link {
    pthread_mutex_t *lock;
    pthread_cond_t heard;
    struct halo_remote_channel channel;
    int error;
    uint32_t io_ms;
    bool is_polling; /* a thread waits in poll() without the lock */
    bool was_pinged; /* since the last byte came */
    uint64_t heard_ms, sent_us;
    uint32_t serial;
    int deferred_error; /* HIP's: the first of requests without an answer that was not taken yet; 0: none */
    uint16_t deferred_op;
    uint32_t n_pending, n_filling;  /* n_filling: those whose answer carries data */
    uint32_t n_slots;               /* slots from here on were never used */
    struct halo_link_pending *last; /* of the request sent last, if its answer is owed */
    uint16_t free_slots[HALO_LINK_PENDING_MAX];
    struct halo_link_pending pending[HALO_LINK_PENDING_MAX];
    struct halo_remote_reader reader;
    size_t n_out;
    uint8_t out[HALO_LINK_OUT_BYTES];
    uint64_t n_sent, n_asked; /* requests without and with an answer */
};

/* Takes the channel and its socket. 0 or -ENOMEM, with the socket closed. */
int halo_link_open(struct halo_link *link, const struct halo_remote_channel *channel, uint32_t io_ms,
                   pthread_mutex_t *lock);
void halo_link_close(struct halo_link *link);
/* For the child of a fork: gives up the socket, which is the parent's. */
void halo_link_abandon(struct halo_link *link);
/* Makes the error sticky and returns it. */
int halo_link_lose(struct halo_link *link, int error);

/* A request without an answer. `data`: the bulk data of the request, once more. 0 or an error. */
int halo_link_send(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                   struct halo_remote_bytes data);
/* A request with one. */
int halo_link_ask(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                  struct halo_link_answer answer);
int halo_link_ask_data(struct halo_link *link, enum halo_remote_op op, const void *request, uint8_t device,
                       struct halo_remote_bytes data, struct halo_link_answer answer);
/* Waits for an answer, if one is owed, or for another thread to have read some. The caller looks whether it was its own
 * and calls again. 0 or an error. */
int halo_link_step(struct halo_link *link);
/* Sends what was gathered and takes the answers that have come. 0 or an error. */
int halo_link_poll(struct halo_link *link);

/* Whether an answer with data for a place in these bytes is owed. */
bool halo_link_is_filling(const struct halo_link *link, const void *at, size_t n);

#endif
