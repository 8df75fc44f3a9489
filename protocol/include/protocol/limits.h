/* limits.h: the limits of the wire protocol, one constant each.
 *
 * Those that an operator may change are defaults of config keys; `hello` tells a client the values in force. The
 * others are part of the protocol: a line that breaks one is refused whatever the configuration says.
 */
#ifndef HALO_PROTOCOL_LIMITS_H
#define HALO_PROTOCOL_LIMITS_H

#define HALO_PROTOCOL_VERSION 1

/* Defaults of config keys. */
#define HALO_LIMIT_CONNECTIONS 256
#define HALO_LIMIT_OPEN_REQUESTS 32               /* per connection */
#define HALO_LIMIT_QUEUED_REQUESTS 256            /* in all */
#define HALO_LIMIT_LINE_BYTES (8u << 20)          /* one line, newline not counted */
#define HALO_LIMIT_OUTPUT_HIGH_BYTES (1u << 20)   /* buffered per connection: above it sequences pause ... */
#define HALO_LIMIT_OUTPUT_LOW_BYTES (256u << 10)  /* ... below it they continue */
#define HALO_LIMIT_OUTPUT_BYTES (256ll << 20)     /* buffered for all connections together ... */
#define HALO_LIMIT_OUTPUT_USER_BYTES (64ll << 20) /* ... and for those of one user id */
#define HALO_LIMIT_STALL_MS 30000                 /* above the high mark this long: client_stalled */
#define HALO_LIMIT_RESUME_BYTES (256ll << 20)     /* request lines kept for resume, in all */
#define HALO_LIMIT_RESUME_USER_BYTES (32ll << 20) /* ... and for one user id */

/* What one line of a client may hold. */
#define HALO_LIMIT_JSON_DEPTH 64    /* nested arrays and objects of a value that a chat template gets, e.g. `tools` */
#define HALO_LIMIT_DEPTH 65         /* of a line: such a value within the outermost object; the same for events */
#define HALO_LIMIT_CONTAINERS 16384 /* arrays and objects in one line: bounds its memory */
#define HALO_LIMIT_KEYS 65536       /* fields of all objects in one line: bounds its time */
#define HALO_LIMIT_VALUES (1 << 20) /* values in one line, list items counted */

/* What one event may hold, whoever sends it: the size of an answer. The encoder makes no larger one; halod reads every
 * smaller one from its engine, and clients read it from halod. A request whose answer would be larger ends with
 * `unsupported`. */
#define HALO_LIMIT_ANSWER_BYTES (32u << 20) /* of its line, newline not counted */
#define HALO_LIMIT_ANSWER_VALUES (4 << 20)  /* list items and objects counted */
#define HALO_LIMIT_ANSWER_CONTAINERS 65536
#define HALO_LIMIT_ANSWER_KEYS (1 << 20)

/* From halod to its engine: a client's line and what halod adds to it (defaults, the ids of a reply that continues).
 * Only the bytes are limited: halod has checked the client's line. */
#define HALO_LIMIT_LINK_LINE_BYTES (64u << 20)

/* Parts of the protocol. */
#define HALO_LIMIT_ID_BYTES 128
#define HALO_LIMIT_MODEL_BYTES 4096 /* a model's name or path */
#define HALO_LIMIT_STOP_STRINGS 16
#define HALO_LIMIT_STOP_BYTES 256               /* each */
#define HALO_LIMIT_LOGPROBS 20                  /* generate.logprobs */
#define HALO_LIMIT_SCORE_TOP 64                 /* score.top */
#define HALO_LIMIT_BIASES 4096                  /* entries of generate.logit_bias */
#define HALO_LIMIT_MESSAGES 4096                /* entries of messages */
#define HALO_LIMIT_PARTS 1024                   /* parts of one message's content */
#define HALO_LIMIT_TOOL_CALLS 128               /* tool calls of one message */
#define HALO_LIMIT_TOOLS 1024                   /* entries of tools */
#define HALO_LIMIT_STAGES 8                     /* GPUs that divide one model */
#define HALO_LIMIT_DRAWN_SEED ((1ll << 53) - 1) /* greatest seed that is drawn: JSON readers with doubles keep it */
#define HALO_LIMIT_PROGRESS_PER_S 10            /* progress events of one request */
#define HALO_LIMIT_SOCKET_PATH_BYTES 107

#endif
