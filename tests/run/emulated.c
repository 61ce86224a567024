/* Runs programs for another CPU: tables of words (functrans/run/call/steps.py) come in by the standard
   input, each with the places of the addresses of kernels and with the arrays, and the results go
   out by the standard output. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void kernel_t(int64_t, int64_t, void *);

extern kernel_t *const kernels[];
extern int64_t run(int64_t *table, void **slots);
extern void init(int64_t *record);

/* what Python would have */
void *PyEval_SaveThread(void) { return NULL; }
void PyEval_RestoreThread(void *state) { (void)state; }
int PyErr_CheckSignals(void) { return 0; }
unsigned long PyThread_get_thread_ident(void) { return 1; }
void *PyMem_RawMalloc(size_t size) { return malloc(size); }
void PyMem_RawFree(void *block) { free(block); }

static int64_t *record;

static void *work(void *number) {
    ((void (*)(int64_t *, int64_t))record[3])(record, (int64_t)(intptr_t)number);
    return NULL;
}

static void start_threads(int count, size_t words) {
    record = aligned_alloc(64, (words * 8 + 63) / 64 * 64);
    memset(record, 0, words * 8);
    init(record);
    for (int64_t number = 1; number < count; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)number)) exit(3);
    }
    record[0] = count;
}

static void take(void *where, size_t size) {
    if (size && fread(where, size, 1, stdin) != 1) exit(2);
}

static int64_t number(void) {
    int64_t value;
    take(&value, 8);
    return value;
}

int main(void) {
    int64_t threads = number(), words = number(), programs = number();
    start_threads(threads, words);
    while (programs--) {
        int64_t length = number();
        int64_t *table = malloc(8 * length);
        take(table, 8 * length);
        int64_t steps = number();
        while (steps--) {
            int64_t at = number();
            table[at] = (int64_t)kernels[table[at]];
        }
        int64_t inputs = table[1], total = table[2];
        void **slots = malloc(8 * table[10]);
        int64_t *sizes = malloc(8 * (total + 1));
        for (int64_t i = 0; i < total; i++) {
            sizes[i] = number();
            slots[i] = aligned_alloc(64, sizes[i] / 64 * 64 + 64);
            if (i < inputs) take(slots[i], sizes[i]);
        }
        table[8] = (int64_t)record;
        int64_t status = run(table, slots);
        fwrite(&status, 8, 1, stdout);
        for (int64_t i = inputs; i < total; i++) fwrite(slots[i], sizes[i], 1, stdout);
        for (int64_t i = 0; i < total; i++) free(slots[i]);
        free(sizes), free(slots), free(table);
    }
    return 0;
}
