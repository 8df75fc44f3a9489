/* job_priv.h: a request as the engine has it: the port's, and a text worker's while that prepares it. */
#ifndef HALO_ENGINE_JOB_PRIV_H
#define HALO_ENGINE_JOB_PRIV_H

#include <base/arena.h>
#include <protocol/message.h>

#include "device/device_thread_priv.h"
#include "io/catalog_priv.h"
#include "io/lookup_priv.h"
#include "text/text_priv.h"

enum halo_job_state {
    HALO_JOB_NEW,
    HALO_JOB_PARKED, /* waits for a load, or for the device to be opened */
    HALO_JOB_TEXT,   /* the text workers have it; the port may set only the atomics */
    HALO_JOB_IO,     /* the io thread has its catalog or looks up its model; its profiling is under way */
    HALO_JOB_DEVICE, /* a sequence, bench or forecast of it is with the device thread */
    HALO_JOB_LOAD,   /* its load is under way, or its unload waits for users */
    HALO_JOB_ENDED,  /* the terminal event is written */
    HALO_N_JOB_STATES
};

struct halo_job {
    struct halo_note note; /* back from the text workers */
    struct halo_text_place text_place;
    struct halo_job *next;      /* in port->jobs */
    struct halo_job *wait_next; /* PARKED, or NEW and about to be dispatched again */
    struct halo_msg msg;        /* owned */
    enum halo_job_state state;
    uint64_t arrived_ns;
    struct halo_instance *model; /* counted among its users */
    bool holds_model;
    atomic_bool cancel, hold;
    struct halo_arena arena; /* of the text worker while it has the request */

    /* the text worker's results */
    struct halo_fault fault;
    struct halo_ev ev; /* terminal event of tokenize, detokenize, template; points into arena */
    struct halo_str *changes;
    size_t n_changes;
    char prompt_md5[33], effective_md5[33];
    uint64_t newline_runs;
    uint32_t n_stable; /* struct halo_sequence_setup */
    bool other_prompt; /* a resumed reply began with another one than this: the fault says which */
    uint64_t seed;

    /* one of these at most */
    struct halo_sequence *sequence;
    struct halo_load *load;
    struct halo_bench *bench;
    struct halo_forecast *forecast;
    struct halo_profiling *profiling; /* the port's: it may outlive the request */
    struct halo_catalog *catalog;
    struct halo_lookup *lookup; /* of the model that the request names: kept until its end */
    struct halo_reset *reset;
    struct halo_look look; /* status */
    struct halo_port_saving *saving;

    /* generate */
    bool blocked, finished; /* events wait because the output is full; the sequence has ended */
    bool started;           /* `started` was written, here or before a resume */
    bool replayed;
    char *text; /* the reply, when it is not streamed */
    size_t n_text, text_capacity;
};

#endif
