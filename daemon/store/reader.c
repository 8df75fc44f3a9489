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

static int reader_init(struct reader *reader, const struct halo_reader_source *sources, size_t n_sources)
{
    const struct halo_reader_options *options = reader->options;
    unsigned depth = options->queue_depth ? options->queue_depth : READER_DEPTH_DEFAULT;
    reader->queue_depth = depth < READER_DEPTH_MAX ? depth : READER_DEPTH_MAX;
    size_t chunk = options->chunk_bytes ? options->chunk_bytes : READER_CHUNK_DEFAULT;
    chunk = chunk < READER_CHUNK_MAX ? chunk : READER_CHUNK_MAX;
    reader->chunk_bytes = halo_hull_end(chunk);
    reader->report->direct = !options->no_direct;
    reader->files = calloc(n_sources + 1, sizeof(*reader->files));
    if (!reader->files)
        return halo_fault_set(reader->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %zu files", n_sources);
    for (size_t i = 0; i < n_sources; i++) {
        reader->n_files = i + 1;
        int r = reader_file_open(reader, &reader->files[i], &sources[i]);
        if (r)
            return r;
    }
    return reader_plan_init(reader);
}

static void reader_finish(struct reader *reader)
{
    for (size_t i = 0; i < reader->n_files; i++)
        reader_file_close(&reader->files[i]);
    free(reader->files);
    reader_plan_finish(reader);
}

/* Empty ranges are in place before anything is read. */
static void reader_done_empty(struct reader *reader)
{
    for (size_t i = 0; i < reader->n_jobs; i++)
        if (reader->jobs[i].n_bytes == 0 && reader->options->done)
            reader->options->done(reader->options->ud, i);
}

static int reader_read(struct reader *reader)
{
    struct reader_populate *populate = reader_populate_start(reader);
    reader_done_empty(reader);
    int r = reader->options->no_uring ? READER_STEP_DOWN : reader_uring_run(reader);
    if (r == READER_STEP_DOWN)
        reader_threads_run(reader);
    reader->report->populated_bytes = reader_populate_stop(populate);
    if (reader->error)
        return reader->error;
    if (reader->bytes_done < reader->bytes_total) { /* nothing else ends a run early */
        assert(reader_cancelled(reader));
        return halo_fault_set(reader->fault, HALO_FAULT_CANCELLED, "reading was cancelled after %llu of %llu bytes",
                              (unsigned long long)reader->bytes_done, (unsigned long long)reader->bytes_total);
    }
    for (size_t i = 0; i < reader->n_files; i++) {
        int changed = reader_file_check(reader, &reader->files[i]);
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
    struct reader reader = {
        .jobs = jobs, .n_jobs = n_jobs, .options = options ? options : &defaults, .report = &report, .fault = fault};
    uint64_t begin_ns = halo_clock_ns();
    int r = reader_init(&reader, sources, n_sources);
    if (!r)
        r = reader_read(&reader);
    report.bytes = reader.bytes_done;
    report.elapsed_ns = halo_clock_ns() - begin_ns;
    reader_finish(&reader);
    if (ret_report)
        *ret_report = report;
    return r;
}
