/* note.h: what travels in the engine's mailboxes: which kind of thing, and the thing.
 *
 * A note is embedded in the object it speaks of (never allocated by itself), so posting cannot fail for want of memory.
 * While it is posted the receiver owns the object, unless the object's header says otherwise.
 */
#ifndef HALO_ENGINE_NOTE_H
#define HALO_ENGINE_NOTE_H

#include <stddef.h>

#include <base/mailbox.h>

struct halo_job; /* a request, as the port knows it; the core does not look inside */

enum halo_note_what {
    /* to any thread */
    HALO_NOTE_LOAD,    /* struct halo_load: the stage that it has reached */
    HALO_NOTE_PROFILE, /* struct halo_profiling: the stage that it has reached */
    /* to the device thread */
    HALO_NOTE_KICK,       /* look at the flags of all sequences */
    HALO_NOTE_SEQUENCE,   /* struct halo_sequence: run it */
    HALO_NOTE_UNLOAD,     /* struct halo_instance: nobody uses it any more */
    HALO_NOTE_BENCH,      /* struct halo_bench */
    HALO_NOTE_FORECAST,   /* struct halo_forecast: its model is open */
    HALO_NOTE_RESET,      /* struct halo_reset */
    HALO_NOTE_LOOK,       /* struct halo_look: describe the device again */
    HALO_NOTE_SAVE_PAGES, /* struct halo_save: the next chunk */
    HALO_NOTE_RESIZE,     /* struct halo_resize; one that grows goes to the prefetch thread first */
    /* to the io thread */
    HALO_NOTE_LOOKUP,        /* struct halo_lookup: which file is it? */
    HALO_NOTE_CATALOG,       /* struct halo_catalog: fill it */
    HALO_NOTE_HEAT,          /* struct halo_heat: how warm are the drives? */
    HALO_NOTE_FORECAST_OPEN, /* struct halo_forecast: open its model */
    HALO_NOTE_SAVE_WRITE,    /* struct halo_save: a chunk for the disk */
    /* to the port */
    HALO_NOTE_EVENTS, /* struct halo_sequence: its ring has events. The device thread keeps owning the sequence */
    HALO_NOTE_SEQUENCE_DONE,    /* struct halo_sequence: ended; the last word about it */
    HALO_NOTE_TEXT_DONE,        /* struct halo_job: its reply lies in it */
    HALO_NOTE_LOOKUP_DONE,      /* struct halo_lookup */
    HALO_NOTE_CATALOG_DONE,     /* struct halo_catalog */
    HALO_NOTE_HEAT_DONE,        /* struct halo_heat */
    HALO_NOTE_LOAD_PROGRESS,    /* struct halo_load: the load goes on, its progress fields moved */
    HALO_NOTE_UNLOAD_DONE,      /* struct halo_instance */
    HALO_NOTE_BENCH_PROGRESS,   /* struct halo_bench: the bench goes on */
    HALO_NOTE_BENCH_DONE,       /* struct halo_bench */
    HALO_NOTE_FORECAST_DONE,    /* struct halo_forecast */
    HALO_NOTE_PROFILE_PROGRESS, /* struct halo_profiling: it goes on */
    HALO_NOTE_RESET_DONE,       /* struct halo_reset */
    HALO_NOTE_LOOK_DONE,        /* struct halo_look */
    HALO_NOTE_RESIZE_DONE,      /* struct halo_resize */
    HALO_NOTE_SAVE_DONE,        /* struct halo_save: one model's prefixes are saved, or not */
    HALO_NOTE_DEVICE_OPEN,      /* of no object: the device was opened, or could not be */
};

struct halo_note {
    struct halo_mail mail; /* first: a mail is cast back to its note */
    enum halo_note_what what;
};

/* The object that a note is part of. */
#define HALO_NOTE_ITEM(note, type, member) ((type *)(void *)((char *)(note)-offsetof(type, member)))

static inline bool halo_note_post(struct halo_mailbox *box, struct halo_note *note, enum halo_note_what what)
{
    note->what = what;
    return halo_mailbox_post(box, &note->mail);
}

static inline struct halo_note *halo_note_of(struct halo_mail *mail)
{
    return (struct halo_note *)mail;
}

#endif
