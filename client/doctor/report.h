/* report.h: what halo-doctor found: a growing list of findings, and the three forms in which it is written.
 *
 * A finding says what was read, the verdict, what the owner should do, and the source of that advice. All its
 * text is in the finding itself, so that it may live in memory shared with a child and be sent through a pipe as it is.
 * Whatever is put in comes out as printable UTF-8 on one line. One thread.
 */
#ifndef HALO_DOCTOR_REPORT_H
#define HALO_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum halo_doctor_verdict { HALO_DOCTOR_PASS, HALO_DOCTOR_WARN, HALO_DOCTOR_FAIL, HALO_DOCTOR_SKIP };
enum { HALO_DOCTOR_N_VERDICTS = 4 };

/* Where in an engine's life a fault of the thing examined ends it. Bits. */
enum halo_doctor_stage {
    HALO_DOCTOR_STAGE_OPEN = 1,   /* the device is opened */
    HALO_DOCTOR_STAGE_LOAD = 2,   /* memory is taken, weights are uploaded */
    HALO_DOCTOR_STAGE_LAUNCH = 4, /* the first kernels run */
    HALO_DOCTOR_STAGE_STEP = 8,   /* prefill and decode */
};

struct halo_doctor_finding {
    char id[32]; /* "cwsr", "tier3": a word that scripts rely on */
    char title[80];
    enum halo_doctor_verdict verdict;
    unsigned stages;  /* enum halo_doctor_stage */
    char read[1024];  /* paths and values: "PATH = VALUE; PATH = VALUE" */
    char advice[768]; /* a sentence or two: what it means, what to do */
    char source[256]; /* where that is known from: addresses */
    uint64_t began_ns;
    double took_ms;
};

enum halo_doctor_form { HALO_DOCTOR_TEXT, HALO_DOCTOR_JSON, HALO_DOCTOR_MARKDOWN };

struct halo_doctor_report {
    struct halo_doctor_finding *at;
    size_t n, room;
    enum halo_doctor_form form;
    FILE *out; /* where each finding is written as it is done; NULL: nowhere */
    uint64_t began_ns;
    int error;                       /* -ENOMEM: findings were lost; else the stream's error */
    struct halo_doctor_finding lost; /* in place of one that there was no memory for */
};

const char *halo_doctor_verdict_name(enum halo_doctor_verdict verdict); /* "PASS", "WARN", "FAIL", "SKIP" */

void halo_doctor_report_init(struct halo_doctor_report *report, enum halo_doctor_form form, FILE *out);
void halo_doctor_report_finish(struct halo_doctor_report *report);

/* A new finding, SKIP without a reason until something is said; its clock runs. Never NULL; valid until the next. */
struct halo_doctor_finding *halo_doctor_report_begin(struct halo_doctor_report *report, const char *id,
                                                     const char *title);
/* Completes the finding and writes it. */
void halo_doctor_report_end(struct halo_doctor_report *report, struct halo_doctor_finding *finding);

/* A finding outside a report: the same beginning. */
void halo_doctor_finding_init(struct halo_doctor_finding *finding, const char *id, const char *title);
/* Adds to what was read, after "; ". */
__attribute__((format(printf, 2, 3))) void halo_doctor_finding_read(struct halo_doctor_finding *finding,
                                                                    const char *format, ...);
/* The verdict and its sentence. The last call wins. */
__attribute__((format(printf, 3, 4))) void halo_doctor_finding_say(struct halo_doctor_finding *finding,
                                                                   enum halo_doctor_verdict verdict, const char *format,
                                                                   ...);

/* Sets took_ms, unless it is set. */
void halo_doctor_finding_end(struct halo_doctor_finding *finding);

/* Write what precedes the first finding and what follows the last; call each once. */
void halo_doctor_report_open(struct halo_doctor_report *report, const char *sysroot);
void halo_doctor_report_close(struct halo_doctor_report *report);

size_t halo_doctor_report_count(const struct halo_doctor_report *report, enum halo_doctor_verdict verdict);
/* FAIL over WARN over PASS; SKIP when there is nothing else. */
enum halo_doctor_verdict halo_doctor_report_worst(const struct halo_doctor_report *report);
/* 0: nothing failed and something was looked at, 1: something failed, 2: nothing was looked at or the report could not
 * be written. */
int halo_doctor_report_exit(const struct halo_doctor_report *report);

#endif
