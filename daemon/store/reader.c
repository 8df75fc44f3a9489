/* reader.c: one run: open the files, plan, read by the best method there is, report.
 *
 * Runs on the caller's thread until everything is in place, an error or cancel. Owns its second descriptors of the
 * files for that time. Each step down is written into the report.
 */
#include <assert.h>
#include <stdlib.h>

#include <base/clock.h>

#include "reader_priv.h"

#define READER_DEPTH_MAX 1024u
#define READER_CHUNK_DEFAULT ((size_t)2 << 20)
#define READER_CHUNK_MAX ((size_t)64 << 20)

static int reader_init(struct reader *r, const struct halo_reader_source *sources, size_t n_sources)
{
    const struct halo_reader_options *options = r->options;
    unsigned depth = options->queue_depth ? options->queue_depth : READER_DEPTH_DEFAULT;
    r->queue_depth = depth < READER_DEPTH_MAX ? depth : READER_DEPTH_MAX;
    size_t chunk = options->chunk_bytes ? options->chunk_bytes : READER_CHUNK_DEFAULT;
    chunk = chunk < READER_CHUNK_MAX ? chunk : READER_CHUNK_MAX;
    r->chunk_bytes = halo_hull_end(chunk);
    r->report->direct = !options->no_direct;
    r->files = calloc(n_sources + 1, sizeof(*r->files));
    if (!r->files)
        return halo_fault_set(r->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %zu files", n_sources);
    for (size_t i = 0; i < n_sources; i++) {
        r->n_files = i + 1;
        int rc = reader_file_open(r, &r->files[i], &sources[i]);
        if (rc)
            return rc;
    }
    return reader_plan_init(r);
}

static void reader_finish(struct reader *r)
{
    for (size_t i = 0; i < r->n_files; i++)
        reader_file_close(&r->files[i]);
    free(r->files);
    reader_plan_finish(r);
}

/* Empty ranges are in place before anything is read. */
static void reader_done_empty(struct reader *r)
{
    for (size_t i = 0; i < r->n_jobs; i++)
        if (r->jobs[i].n_bytes == 0 && r->options->done)
            r->options->done(r->options->ud, i);
}

static int reader_read(struct reader *r)
{
    reader_done_empty(r);
    int rc = r->options->no_uring ? READER_STEP_DOWN : reader_uring_run(r);
    if (rc == READER_STEP_DOWN)
        reader_threads_run(r);
    if (r->error)
        return r->error;
    if (r->bytes_done < r->bytes_total) { /* nothing else ends a run early */
        assert(reader_cancelled(r));
        return halo_fault_set(r->fault, HALO_FAULT_CANCELLED, "reading was cancelled after %llu of %llu bytes",
                              (unsigned long long)r->bytes_done, (unsigned long long)r->bytes_total);
    }
    for (size_t i = 0; i < r->n_files; i++) {
        int changed = reader_file_check(r, &r->files[i]);
        if (changed)
            return changed;
    }
    return 0;
}

int halo_reader_run(const struct halo_reader_source *sources, size_t n_sources, const struct halo_reader_job *jobs,
                    size_t n_jobs, const struct halo_reader_options *options, struct halo_reader_report *ret_report,
                    struct halo_fault *fault)
{
    static const struct halo_reader_options defaults;
    struct halo_reader_report report = {.method = HALO_READER_PREAD};
    struct reader r = {
        .jobs = jobs, .n_jobs = n_jobs, .options = options ? options : &defaults, .report = &report, .fault = fault};
    uint64_t begin_ns = halo_clock_ns();
    int rc = reader_init(&r, sources, n_sources);
    if (!rc)
        rc = reader_read(&r);
    report.bytes = r.bytes_done;
    report.elapsed_ns = halo_clock_ns() - begin_ns;
    reader_finish(&r);
    if (ret_report)
        *ret_report = report;
    return rc;
}
