/* text.c: the text thread: everything that needs a tokenizer, a template or the directory of a file.
 *
 * One thread, one job at a time, in order of arrival. It never touches the device. A job fails with job->fault.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/port_priv.h"

/* ---- files ---- */

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* DIR/NAME.gguf or DIR/NAME. */
static bool find_in(const char *dir, const char *name, char ret_path[HALO_MODEL_PATH_BYTES])
{
    static const char *const ends[] = {".gguf", ""};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        int n = snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s/%s%s", dir, name, ends[i]);
        if (n > 0 && n < HALO_MODEL_PATH_BYTES && is_file(ret_path))
            return true;
    }
    return false;
}

/* The first part of a split set. */
static bool find_split_in(const char *dir, const char *name, char ret_path[HALO_MODEL_PATH_BYTES])
{
    bool found = false;
    size_t n_name = strlen(name);
    DIR *stream = opendir(dir);
    for (struct dirent *entry; stream && !found && (entry = readdir(stream));) {
        char stem[HALO_MODEL_STEM_BYTES];
        if (strncmp(entry->d_name, name, n_name) != 0 || strncmp(entry->d_name + n_name, "-00001-of-", 10) != 0)
            continue;
        halo_model_stem(entry->d_name, strlen(entry->d_name), stem);
        int n = snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s/%s", dir, entry->d_name);
        found = strcmp(stem, name) == 0 && n > 0 && n < HALO_MODEL_PATH_BYTES && is_file(ret_path);
    }
    if (stream)
        closedir(stream);
    return found;
}

/* The sandbox answers as a file's mode does: says what it may have been. Any other obstacle the directory reader names,
 * better than we could. */
static int check_permission(const struct halo_port_config *config, const char *path, struct halo_fault *fault)
{
    int fd = config->models_only ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY) : -1;
    bool denied = config->models_only && fd < 0 && errno == EACCES;
    if (fd >= 0)
        close(fd);
    return !denied ? 0
                   : halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                    "%.100s: permission denied; the file's mode forbids it, or it lies outside the "
                                    "model directories (halod.conf: any_path)",
                                    path);
}

int halo_text_resolve(const struct halo_port_config *config, const char *name, char ret_path[HALO_MODEL_PATH_BYTES],
                      struct halo_fault *fault)
{
    if (strchr(name, '/')) {
        snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s", name);
        return check_permission(config, ret_path, fault);
    }
    for (size_t i = 0; i < config->n_model_dirs; i++)
        if (find_in(config->model_dirs[i], name, ret_path) || find_split_in(config->model_dirs[i], name, ret_path))
            return check_permission(config, ret_path, fault);
    if (!config->link && is_file(name)) {
        snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s", name);
        return 0;
    }
    return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "no model file %.100s(.gguf) in %s%.80s", name,
                          config->n_model_dirs == 1   ? ""
                          : config->n_model_dirs == 0 ? "any directory: none is configured"
                                                      : "any of the model directories, the first of which is ",
                          config->n_model_dirs > 0 ? config->model_dirs[0] : "");
}

static void parse_load(struct halo_text_thread *text, struct halo_load *load)
{
    char path[HALO_MODEL_PATH_BYTES];
    if (halo_text_resolve(text->config, load->instance->path, path, &load->fault) == 0) {
        memcpy(load->instance->path, path, sizeof(path));
        halo_load_parse(load);
    }
    if (load->fault.code != HALO_FAULT_NONE)
        halo_note_post(text->port, &load->note, HALO_NOTE_LOAD_DONE);
    else
        halo_note_post(text->device, &load->note, HALO_NOTE_LOAD_CREATE);
}

/* A file that cannot be used stays where it is, for whoever wants to know. */
static void take_prefixes(struct halo_text_thread *text, struct halo_load *load)
{
    const struct halo_model *model = load->instance->model;
    const char *fingerprint = halo_gguf_fingerprint(model->gguf);
    struct halo_prefix_key key;
    char path[HALO_PREFIX_PATH_BYTES], stamp[HALO_GGUF_STAMP_BYTES];
    halo_gguf_stamp(model->gguf, stamp);
    halo_prefix_key_of(&model->plan, fingerprint, stamp, load->layout, load->page_bytes, &key);
    if (halo_prefix_disk_path(text->config->state_dir, fingerprint, path) == 0 &&
        halo_prefix_disk_take(path, &key, text->config->save_bytes, &load->image, &load->n_records,
                              &load->prefix_fault) < 0)
        halo_fault_prefix(&load->prefix_fault, "%.160s", path);
    halo_note_post(text->device, &load->note, HALO_NOTE_LOAD_RESTORE);
}

/* ---- the loop ---- */

static void do_job(struct halo_text_thread *text, struct halo_job *job)
{
    if (!atomic_load(&job->cancel)) {
        switch (job->msg.type) {
        case HALO_MSG_GENERATE: halo_text_job_generate(text, job); break;
        case HALO_MSG_SCORE: halo_text_job_score(text, job); break;
        case HALO_MSG_TOKENIZE: halo_text_job_tokenize(text, job); break;
        case HALO_MSG_TEMPLATE: halo_text_job_template(text, job); break;
        case HALO_MSG_DETOKENIZE: halo_text_job_detokenize(text, job); break;
        case HALO_MSG_MODELS: halo_text_job_models(text, job); break;
        case HALO_MSG_PLAN: halo_text_job_plan(text, job); break;
        default: assert(!"no job for the text thread");
        }
    }
    halo_note_post(text->port, &job->note, HALO_NOTE_TEXT_DONE);
}

static void write_save(struct halo_text_thread *text, struct halo_save *save)
{
    halo_save_write(save, text->config->state_dir);
    halo_note_post(text->device, &save->note, HALO_NOTE_SAVE_PAGES);
}

static void *loop(void *ud)
{
    struct halo_text_thread *text = ud;
    for (;;) {
        struct halo_mail *mail = halo_mailbox_wait(&text->box, UINT64_MAX);
        while (mail) {
            struct halo_note *note = halo_note_of(mail);
            mail = mail->next;
            switch (note->what) {
            case HALO_NOTE_LOAD_PARSE: parse_load(text, HALO_NOTE_ITEM(note, struct halo_load, note)); break;
            case HALO_NOTE_LOAD_PREFIXES: take_prefixes(text, HALO_NOTE_ITEM(note, struct halo_load, note)); break;
            case HALO_NOTE_SAVE_WRITE: write_save(text, HALO_NOTE_ITEM(note, struct halo_save, note)); break;
            default: do_job(text, HALO_NOTE_ITEM(note, struct halo_job, note));
            }
        }
    }
    return NULL;
}

int halo_text_thread_start(struct halo_text_thread *text)
{
    halo_arena_init(&text->arena, 0);
    halo_arena_init(&text->scratch, 0);
    int r = halo_mailbox_init(&text->box, false);
    return r < 0 ? r : -pthread_create(&text->thread, NULL, loop, text);
}
