/* io.c: the loop of the io thread. */
#include "io/io_priv.h"

#include <assert.h>

#include <base/thread.h>

#include "device/device_thread_priv.h"

static void fill_catalog(struct halo_io_thread *io, struct halo_catalog *catalog)
{
    halo_io_fill_catalog(io, catalog);
    halo_note_post(io->port, &catalog->note, HALO_NOTE_CATALOG_DONE);
}

static int open_model(struct halo_forecast *forecast, const char *path)
{
    struct halo_texts texts = {0}; /* a plan is refused where the load would be */
    int r = halo_model_create(&forecast->model, path, &forecast->wish, &forecast->fault);
    if (r == 0)
        r = halo_texts_create(&texts, forecast->model->gguf, forecast->model->hparams.n_vocab, &forecast->fault);
    halo_texts_destroy(&texts);
    return r;
}

/* The model that a plan is for; the device's thread does the rest. */
static void open_forecast(struct halo_io_thread *io, struct halo_forecast *forecast)
{
    struct halo_io_file file;
    int r = forecast->is_path ? halo_io_find_path(io, forecast->file, &file, &forecast->fault)
                              : halo_io_find(io, forecast->file, &file, &forecast->fault);
    if (r == 0) {
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", file.path);
        r = open_model(forecast, file.path);
    }
    if (r == 0)
        halo_io_stored_profile(io, forecast->model->gguf, file.path, &forecast->here, &forecast->stored,
                               &forecast->stored_fault);
    if (r < 0)
        halo_note_post(io->port, &forecast->note, HALO_NOTE_FORECAST_DONE);
    else
        halo_note_post(io->device, &forecast->note, HALO_NOTE_FORECAST);
}

static void write_save(struct halo_io_thread *io, struct halo_save *save)
{
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "writing prefixes of %s", save->instance->name);
    halo_save_write(save, io->config.state_dir);
    halo_note_post(io->device, &save->note, HALO_NOTE_SAVE_PAGES);
}

static void look_up(struct halo_io_thread *io, struct halo_lookup *lookup)
{
    halo_io_look_up(io, lookup);
    halo_note_post(io->port, &lookup->note, HALO_NOTE_LOOKUP_DONE);
}

static void feel(struct halo_io_thread *io, struct halo_heat *heat)
{
    halo_io_heat(io, heat);
    halo_note_post(io->port, &heat->note, HALO_NOTE_HEAT_DONE);
}

static void take_note(struct halo_io_thread *io, struct halo_note *note)
{
    switch (note->what) {
    case HALO_NOTE_LOAD: halo_load_run(HALO_NOTE_ITEM(note, struct halo_load, note)); break;
    case HALO_NOTE_LOOKUP: look_up(io, HALO_NOTE_ITEM(note, struct halo_lookup, note)); break;
    case HALO_NOTE_CATALOG: fill_catalog(io, HALO_NOTE_ITEM(note, struct halo_catalog, note)); break;
    case HALO_NOTE_FORECAST_OPEN: open_forecast(io, HALO_NOTE_ITEM(note, struct halo_forecast, note)); break;
    case HALO_NOTE_SAVE_WRITE: write_save(io, HALO_NOTE_ITEM(note, struct halo_save, note)); break;
    case HALO_NOTE_HEAT: feel(io, HALO_NOTE_ITEM(note, struct halo_heat, note)); break;
    case HALO_NOTE_PROFILE: halo_io_profile(io, HALO_NOTE_ITEM(note, struct halo_profiling, note)); break;
    default: assert(!"no note for the io thread");
    }
}

static void *loop(void *ud)
{
    struct halo_io_thread *io = ud;
    halo_io_check_folders(io);
    for (;;) {
        halo_phase_set(&io->phase, HALO_ACTIVITY_IDLE, "idle");
        struct halo_mail *mail = halo_mailbox_wait(&io->box, UINT64_MAX);
        while (mail) {
            struct halo_note *note = halo_note_of(mail);
            mail = mail->next; /* before the note's object goes to somebody else */
            take_note(io, note);
        }
    }
    return NULL;
}

int halo_io_thread_start(struct halo_io_thread *io)
{
    halo_phase_init(&io->phase);
    int r = halo_mailbox_init(&io->box, false);
    return r < 0 ? r : halo_thread_start(&io->thread, "io", loop, io);
}
