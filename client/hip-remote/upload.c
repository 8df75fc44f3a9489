/* upload.c: asks for pieces by their hash, sends those that the worker does not have. */
#include "upload_priv.h"

#include <stdlib.h>
#include <string.h>

#include "client_priv.h"

#define UNIT_BYTES (16u << 10) /* of a map: pieces are longer, so the middles of two lie in different units */

_Static_assert(HALO_UPLOAD_LEAST_BYTES >= 2 * UNIT_BYTES, "no two pieces share a unit");

/* ---- which copies ---- */

/* Equal pieces: none is so short that its hash would be much of it. */
static size_t piece_bytes(size_t n)
{
    size_t n_pieces = n / HALO_REMOTE_DATA_MAX + (n % HALO_REMOTE_DATA_MAX != 0);
    return n / n_pieces + (n % n_pieces != 0);
}

uint8_t *halo_upload_map(size_t n)
{
    bool takes_part = halo_client.uploads.are_kept && n >= HALO_UPLOAD_LEAST_BYTES;
    return takes_part ? calloc(1, n / UNIT_BYTES / 8 + 1) : NULL;
}

bool halo_upload_is_for(uint64_t to, size_t n)
{
    const struct halo_remote_range *range =
        n >= HALO_UPLOAD_LEAST_BYTES ? halo_remote_ranges_find(&halo_client.device_memory, to, n) : NULL;
    bool is_first = true;
    if (!range || !range->uploaded)
        return false;
    for (size_t done = 0, piece = piece_bytes(n), step; done < n; done += step) {
        step = n - done < piece ? n - done : piece;
        uint64_t unit = (to - range->at + done + step / 2) / UNIT_BYTES;
        uint8_t bit = (uint8_t)(1u << unit % 8);
        is_first = is_first && !(range->uploaded[unit / 8] & bit);
        range->uploaded[unit / 8] |= bit;
    }
    return is_first;
}

/* ---- the copy ---- */

struct window {
    struct halo_upload_piece pieces[HALO_UPLOAD_WINDOW];
    uint32_t n, n_left; /* n_left: answers that are owed */
    int error;          /* of the first answer that has one */
    struct halo_hashing hashing;
};

static void take_asked(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct window *w = ud;
    w->n_left--;
    if (reply->status.error && !w->error)
        w->error = reply->status.error;
    w->pieces[tag].was_kept = !reply->status.error && reply->memcpy_from_blob.was_kept;
}

/* Nobody waits for it: an error comes with the next call that may report it. */
static void take_unasked(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct halo_client_session *c = ud;
    if (reply->status.error && !c->link.deferred_error) {
        c->link.deferred_error = reply->status.error;
        c->link.deferred_op = HIP_OP_MEMCPY_TO_BLOB;
    }
    if (!reply->status.error && reply->memcpy_to_blob.was_kept)
        c->uploads.sends_unasked = false;
}

/* `is_answered`: the answer says whether the worker had it. */
static int send_piece(const struct halo_upload_piece *p, uint64_t stream, bool is_answered)
{
    struct halo_remote_memcpy_to_blob q = {.to = p->to, .stream = stream, .data = {p->from, p->n}};
    memcpy(q.sha256, p->sha256, sizeof(q.sha256));
    if (!is_answered)
        return halo_client_send_data(HIP_OP_MEMCPY_TO_BLOB, &q, q.data);
    const struct halo_link_answer answer = {.take = take_unasked, .ud = &halo_client};
    return halo_client_error(halo_link_ask_data(&halo_client.link, HIP_OP_MEMCPY_TO_BLOB, &q,
                                                (uint8_t)halo_client_thread_device, q.data, answer));
}

static int send_window(struct window *w, uint64_t stream)
{
    int error = 0;
    for (uint32_t i = 0; i < w->n && !error; i++)
        error = halo_hashing_await(&w->hashing, i) ? send_piece(&w->pieces[i], stream, i == 0) : HIP_OUT_OF_MEMORY;
    return error;
}

/* Each question is sent at once: the worker looks for one piece while the next ones are hashed. */
static int ask(struct window *w, uint64_t stream)
{
    struct halo_link *link = &halo_client.link;
    int error = 0;
    for (uint32_t i = 0; i < w->n && !error; i++) {
        struct halo_upload_piece *p = &w->pieces[i];
        struct halo_remote_memcpy_from_blob q = {.to = p->to, .size = p->n, .stream = stream};
        const struct halo_link_answer answer = {.take = take_asked, .ud = w, .tag = i};
        if (!halo_hashing_await(&w->hashing, i)) {
            error = HIP_OUT_OF_MEMORY;
            break;
        }
        memcpy(q.sha256, p->sha256, sizeof(q.sha256));
        int r = halo_link_ask(link, HIP_OP_MEMCPY_FROM_BLOB, &q, (uint8_t)halo_client_thread_device, answer);
        w->n_left += !r;
        error = halo_client_error(r ? r : halo_link_poll(link));
    }
    while (w->n_left > 0 && !link->error)
        (void)halo_link_step(link);
    return link->error ? halo_client_error(link->error) : error ? error : w->error;
}

static int ask_window(struct window *w, uint64_t stream)
{
    uint32_t n_kept = 0;
    int error = ask(w, stream);
    for (uint32_t i = 0; i < w->n && !error; i++) {
        n_kept += w->pieces[i].was_kept;
        if (!w->pieces[i].was_kept)
            error = send_piece(&w->pieces[i], stream, false);
    }
    halo_client.uploads.sends_unasked = n_kept == 0;
    return error;
}

int halo_upload(uint64_t to, const uint8_t *from, size_t n, uint64_t stream)
{
    int error = 0;
    for (size_t done = 0, piece = piece_bytes(n), step; done < n && !error;) {
        struct window w = {0};
        for (; w.n < HALO_UPLOAD_WINDOW && done < n; done += step) {
            step = n - done < piece ? n - done : piece;
            w.pieces[w.n++] = (struct halo_upload_piece){.to = to + done, .from = from + done, .n = (uint32_t)step};
        }
        halo_hashing_begin(&w.hashing, &halo_client.uploads, w.pieces, w.n);
        error = halo_client.uploads.sends_unasked ? send_window(&w, stream) : ask_window(&w, stream);
        halo_hashing_end(&w.hashing);
    }
    return error;
}
