/* tls.c: GnuTLS behind the functions of a channel, and its SHA-256. */
#include <hip_tls/tls.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

/* Every connection of the same worker has the same key, so one name serves all. */
#define NAME "hip-remote"

/* One version of the protocol, and no key exchange without Diffie-Hellman. A signature is listed because GnuTLS asks
 * for one; there is no key exchange that would use it. */
#define PRIORITY                                                                                                       \
    "NONE:+VERS-TLS1.3:+AES-128-GCM:+CHACHA20-POLY1305:+AEAD:+GROUP-X25519:+DHE-PSK:+ECDHE-PSK:+SIGN-EDDSA-ED25519"

struct tls {
    gnutls_session_t session;
    gnutls_psk_server_credentials_t of_worker;
    gnutls_psk_client_credentials_t of_client;
    struct halo_remote_key key; /* the worker's, until the handshake asks for it */
};

/* ---- the key ---- */

/* GnuTLS asks the worker for the key of a name, and frees the copy. A client with another name proves the same key. */
static int give_key(gnutls_session_t session, const char *name, gnutls_datum_t *ret)
{
    const struct tls *t = gnutls_session_get_ptr(session);
    ret->data = gnutls_malloc(HALO_REMOTE_KEY_BYTES);
    if (!ret->data)
        return -1;
    memcpy(ret->data, t->key.bytes, HALO_REMOTE_KEY_BYTES);
    ret->size = HALO_REMOTE_KEY_BYTES;
    return 0;
}

static int set_worker_key(struct tls *t, const struct halo_remote_key *key)
{
    int error = gnutls_psk_allocate_server_credentials(&t->of_worker);
    if (error)
        return error;
    t->key = *key;
    gnutls_psk_set_server_credentials_function(t->of_worker, give_key);
    return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->of_worker);
}

static int set_client_key(struct tls *t, const struct halo_remote_key *key)
{
    struct halo_remote_key copy = *key;
    const gnutls_datum_t bytes = {copy.bytes, sizeof(copy.bytes)};
    int error = gnutls_psk_allocate_client_credentials(&t->of_client);
    if (!error)
        error = gnutls_psk_set_client_credentials(t->of_client, NAME, &bytes, GNUTLS_PSK_KEY_RAW);
    halo_remote_key_forget(&copy);
    return error ? error : gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->of_client);
}

/* Once both sides have proved it, the key is of no use any more. */
static void forget_key(struct tls *t)
{
    if (t->session)
        gnutls_credentials_clear(t->session);
    if (t->of_worker)
        gnutls_psk_free_server_credentials(t->of_worker);
    if (t->of_client)
        gnutls_psk_free_client_credentials(t->of_client);
    t->of_worker = NULL;
    t->of_client = NULL;
    halo_remote_key_forget(&t->key);
}

/* ---- lifecycle ---- */

static void end(void *state)
{
    struct tls *t = state;
    forget_key(t);
    if (t->session)
        gnutls_deinit(t->session);
    free(t);
}

static int begin(void **ret, int fd, bool is_worker, const struct halo_remote_key *key)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    unsigned side = is_worker ? GNUTLS_SERVER : GNUTLS_CLIENT;
    int error = gnutls_init(&t->session, side | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
    if (!error)
        error = gnutls_priority_set_direct(t->session, PRIORITY, NULL);
    if (!error)
        error = is_worker ? set_worker_key(t, key) : set_client_key(t, key);
    if (error) {
        end(t);
        return error == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -ENOTSUP;
    }
    gnutls_session_set_ptr(t->session, t);
    gnutls_transport_set_int(t->session, fd);
    gnutls_handshake_set_timeout(t->session, GNUTLS_INDEFINITE_TIMEOUT); /* the caller has a deadline */
    *ret = t;
    return 0;
}

/* ---- the handshake ---- */

static int errno_of(ssize_t error)
{
    switch (error) {
    case GNUTLS_E_AGAIN:
    case GNUTLS_E_INTERRUPTED: return -EAGAIN;
    case GNUTLS_E_MEMORY_ERROR: return -ENOMEM;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH: /* the end behind the header of a record */
    case GNUTLS_E_PUSH_ERROR:
    case GNUTLS_E_PULL_ERROR: return -ECONNRESET;
    default: return -EBADMSG;
    }
}

/* Why a handshake failed. A side that finds that a proof does not fit sends an alert, which the other receives. */
static int refusal(const struct tls *t, int error)
{
    int r = errno_of(error);
    switch (error) {
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
        return gnutls_alert_get(t->session) == GNUTLS_A_UNEXPECTED_MESSAGE ? -EPROTO : -EACCES;
    case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
    case GNUTLS_E_ERROR_IN_FINISHED_PACKET:
    case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
    case GNUTLS_E_DECRYPTION_FAILED: return -EACCES;
    default: return r == -EBADMSG ? -EPROTO : r;
    }
}

static int handshake(void *state, short *ret_events)
{
    struct tls *t = state;
    int error = gnutls_handshake(t->session);
    *ret_events = gnutls_record_get_direction(t->session) ? POLLOUT : POLLIN;
    if (error < 0 && !gnutls_error_is_fatal(error))
        return -EAGAIN;
    if (error == 0 && gnutls_auth_get_type(t->session) != GNUTLS_CRD_PSK)
        error = GNUTLS_E_INSUFFICIENT_CREDENTIALS;
    if (error < 0) {
        int r = refusal(t, error);
        if (error != GNUTLS_E_FATAL_ALERT_RECEIVED)
            (void)gnutls_alert_send_appropriate(t->session, error);
        return r;
    }
    forget_key(t);
    return 0;
}

/* ---- records ---- */

static ssize_t send_some(void *state, const void *at, size_t n)
{
    struct tls *t = state;
    size_t done = 0;
    while (done < n) {
        ssize_t sent = gnutls_record_send(t->session, (const uint8_t *)at + done, n - done);
        if (sent < 0)
            return done > 0 ? (ssize_t)done : errno_of(sent);
        done += (size_t)sent;
    }
    return (ssize_t)done;
}

static ssize_t recv_some(void *state, void *at, size_t n)
{
    struct tls *t = state;
    size_t done = 0;
    while (done < n) {
        ssize_t got = gnutls_record_recv(t->session, (uint8_t *)at + done, n - done);
        if (got > 0)
            done += (size_t)got;
        else if (done > 0 || got == 0)
            break; /* an error is found again by the next call */
        else
            return got == GNUTLS_E_PREMATURE_TERMINATION ? 0 : errno_of(got);
    }
    return (ssize_t)done;
}

static bool has_unread(const void *state)
{
    const struct tls *t = state;
    return gnutls_record_check_pending(t->session) > 0;
}

/* ---- hashes ---- */

static bool sha256(const void *at, size_t n, uint8_t ret[static HALO_REMOTE_SHA256_BYTES])
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, at, n, ret) == 0;
}

const struct halo_remote_cipher halo_remote_tls = {
    .bytes = sizeof(struct halo_remote_cipher),
    .begin = begin,
    .handshake = handshake,
    .send = send_some,
    .recv = recv_some,
    .has_unread = has_unread,
    .end = end,
    .sha256 = sha256,
};
