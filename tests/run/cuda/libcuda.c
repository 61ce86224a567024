/* A libcuda without a GPU: streams do what they are given at once, in host memory.

   cuda.core and cuda.bindings run on it as they are. Every call is written to a log, and what a real
   driver would refuse is refused here: work on a device that is not the current one, capturing that
   is broken, memory that is not there. A "cubin" is text: for each kernel its name and the number of
   its arguments. The kernel `fill` (address, n, value) writes; other kernels do nothing. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Handle;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900,
    GRAPH_UPDATE_FAILED = 910,
};

/* ---- the machine --------------------------------------------------------------------------- */

#define MOST 4096

static int devices = 1, version = 13000, room_for = 1 << 20, init_status = SUCCESS;

typedef struct { char kernel[64]; int blocks, threads, shared, n; int64_t arguments[32]; } Launch;
typedef struct { int device, capturing; struct Graph *graph; } Stream;
typedef struct Graph { int n; Launch launches[64]; } Graph;
typedef struct { char name[64]; int n, shared; } Kernel;
typedef struct { int n; Kernel kernels[16]; } Library;
typedef struct { int device; } Event;
typedef struct { char *base; size_t size; int device; } Block;

static struct { int device; } contexts[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static struct { int device; size_t used, kept; uint64_t threshold; } pools[16];
static int n_pools;
static Block blocks[MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __thread void *stack[64];
static __thread int depth;

static char log_text[1 << 22];
static size_t log_size;

static void note(const char *format, ...) {
    va_list arguments;
    pthread_mutex_lock(&mutex);
    va_start(arguments, format);
    if (log_size < sizeof log_text - 512) {
        log_size += vsnprintf(log_text + log_size, 500, format, arguments);
        log_text[log_size++] = '\n';
        log_text[log_size] = 0;
    }
    va_end(arguments);
    pthread_mutex_unlock(&mutex);
}

/* what tests call */
const char *fake_log(void) { return log_text; }
void fake_clear(void) { log_size = 0; log_text[0] = 0; }
void fake_machine(int gpus, int driver_version, int bytes, int status) {
    devices = gpus, version = driver_version, room_for = bytes, init_status = status;
}

static int broken;
void fake_break(int status) { broken = status; }
#define NEEDS_HEALTH if (broken) return broken

static void *current(void) { return depth ? stack[depth - 1] : 0; }
static int device_of(void *context) { return ((int *)context)[0]; }
#define NEEDS_CONTEXT if (!current()) return INVALID_CONTEXT

/* the legacy default stream is of whatever device is current */
static Stream legacy;
static Stream *stream_of(Handle handle) {
    if (handle > 2) return (Stream *)handle;
    legacy.device = current() ? device_of(current()) : -1;
    return &legacy;
}

static Block *block_of(Handle address) {
    for (int i = 0; i < MOST; i++)
        if (blocks[i].base && (char *)address >= blocks[i].base
            && (char *)address < blocks[i].base + blocks[i].size) return blocks + i;
    return 0;
}

static Result inside(Handle address, size_t n) {
    Block *found = block_of(address);
    return found && (char *)address + n <= found->base + found->size ? SUCCESS : INVALID_VALUE;
}

/* work on a stream needs its device to be the current one, and no capture but for launches */
static Result ready(Handle handle) {
    Stream *stream = stream_of(handle);
    if (!current()) return INVALID_CONTEXT;
    if (device_of(current()) != stream->device) return INVALID_HANDLE;
    return stream->capturing ? CAPTURE_UNSUPPORTED : SUCCESS;
}
#define NEEDS(condition) do { Result status_ = (condition); if (status_) return status_; } while (0)

/* ---- the driver ---------------------------------------------------------------------------- */

static Result cuInit(unsigned flags) { return devices || init_status ? init_status : NO_DEVICE; }
static Result cuDriverGetVersion(int *out) { *out = version; return SUCCESS; }
static Result cuGetErrorName(Result code, const char **out) { *out = "CUDA_ERROR"; return SUCCESS; }
static Result cuGetErrorString(Result code, const char **out) { *out = "words"; return SUCCESS; }
static Result cuDeviceGetCount(int *out) { *out = devices; return SUCCESS; }
static Result cuDeviceGet(int *out, int ordinal) {
    *out = ordinal;
    return ordinal < devices ? SUCCESS : INVALID_DEVICE;
}
static Result cuDeviceGetName(char *out, int n, int device) {
    snprintf(out, n, "no GPU");
    return SUCCESS;
}
static Result cuDeviceGetUuid(char *out, int device) {
    memset(out, device, 16);
    return SUCCESS;
}
static Result cuDeviceGetAttribute(int *out, int which, int device) {
    switch (which) {
        case 1: *out = 1024; break;             /* threads of a block */
        case 10: *out = 32; break;              /* of a warp */
        case 16: *out = 132; break;             /* multiprocessors */
        case 75: *out = 9; break;               /* compute capability */
        case 76: *out = 0; break;
        case 97: *out = 227 << 10; break;       /* shared memory that may be asked for */
        default: *out = 1;
    }
    return SUCCESS;
}
static Result cuDevicePrimaryCtxRetain(void **out, int device) {
    *out = contexts + device;
    return SUCCESS;
}
static Result cuDevicePrimaryCtxRelease(int device) { return SUCCESS; }
static Result cuCtxGetCurrent(void **out) { *out = current(); return SUCCESS; }
static Result cuCtxSetCurrent(void *context) {
    if (!depth) depth = 1;
    stack[depth - 1] = context;
    return SUCCESS;
}
static Result cuCtxPushCurrent(void *context) { stack[depth++] = context; return SUCCESS; }
static Result cuCtxPopCurrent(void **out) {
    if (!depth) return INVALID_CONTEXT;
    void *popped = stack[--depth];
    if (out) *out = popped;
    return SUCCESS;
}
static Result cuCtxGetDevice(int *out) {
    NEEDS_CONTEXT;
    *out = device_of(current());
    return SUCCESS;
}
static Result cuCtxGetId(void *context, unsigned long long *out) {
    *out = device_of(context ? context : current()) + 1;
    return SUCCESS;
}
static Result cuCtxSynchronize(void) { NEEDS_CONTEXT; note("synchronize all"); return SUCCESS; }
static Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return SUCCESS;
}

static Result cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) { NEEDS_HEALTH;
    NEEDS_CONTEXT;
    *out = calloc(1, sizeof **out);
    (*out)->device = device_of(current());
    return SUCCESS;
}
static Result cuStreamDestroy(Stream *stream) { return SUCCESS; }
static Result cuStreamGetFlags(Handle stream, unsigned *out) { *out = 1; return SUCCESS; }
static Result cuStreamGetPriority(Handle stream, int *out) { *out = 0; return SUCCESS; }
static Result cuStreamGetCtx(Handle stream, void **out) {
    *out = contexts + stream_of(stream)->device;
    return SUCCESS;
}
static Result cuStreamGetCtx_v2(Handle stream, void **out, void **green) {
    *out = contexts + stream_of(stream)->device;
    if (green) *green = 0;
    return SUCCESS;
}
static Result cuStreamGetDevice(Handle stream, int *out) {
    *out = stream_of(stream)->device;
    return SUCCESS;
}
static Result cuStreamSynchronize(Handle stream) {
    NEEDS(ready(stream));
    note("synchronize %lx", stream);
    return SUCCESS;
}
static Result cuStreamWaitEvent(Handle stream, Event *event, unsigned flags) { NEEDS_HEALTH;
    note("wait %lx %p", stream, (void *)event);
    return SUCCESS;
}

static Result cuEventCreate(Event **out, unsigned flags) { NEEDS_HEALTH;
    NEEDS_CONTEXT;
    *out = calloc(1, sizeof **out);
    (*out)->device = device_of(current());
    return SUCCESS;
}
static Result cuEventDestroy(Event *event) { return SUCCESS; }
static Result cuEventRecord(Event *event, Handle stream) { NEEDS_HEALTH;
    Stream *of = stream_of(stream);
    if (event->device != of->device) return INVALID_HANDLE;
    if (of->capturing) return CAPTURE_UNSUPPORTED;
    note("record %p %lx", (void *)event, stream);
    return SUCCESS;
}
static Result cuEventQuery(Event *event) { NEEDS_HEALTH; return SUCCESS; }
static Result cuEventSynchronize(Event *event) { NEEDS_HEALTH; return SUCCESS; }
static Result cuEventElapsedTime(float *out, Event *a, Event *b) { NEEDS_HEALTH; *out = 2.0f; return SUCCESS; }

typedef struct { int type, handle_types; struct { int kind, id; } location; char rest[72]; } Props;
static Result cuMemPoolCreate(void **out, const Props *props) {
    pools[n_pools].device = props->location.id;
    *out = pools + n_pools++;
    note("pool %d", props->location.id);
    return SUCCESS;
}
static Result cuMemPoolDestroy(void *pool) { return SUCCESS; }
static Result cuMemPoolSetAttribute(void *pool, int which, uint64_t *value) {
    if (which == 4) note("threshold %lx", *value);
    return SUCCESS;
}
static Result cuMemPoolGetAttribute(void *pool, int which, uint64_t *value) {
    int i = (int)((char *)pool - (char *)pools) / (int)sizeof pools[0];
    *value = which == 7 ? pools[i].used : 0;
    return SUCCESS;
}
static Result cuMemPoolSetAccess(void *pool, void *access, size_t n) { return SUCCESS; }
static Result cuMemPoolTrimTo(void *pool, size_t keep) {
    NEEDS_CONTEXT;
    note("trim");
    return SUCCESS;
}
static Result cuMemAllocFromPoolAsync(Handle *out, size_t n, void *pool, Handle stream) {
    NEEDS(ready(stream));
    int i = (int)((char *)pool - (char *)pools) / (int)sizeof pools[0];
    if (pools[i].used + n > (size_t)room_for) return OUT_OF_MEMORY;
    pools[i].used += n;
    pthread_mutex_lock(&mutex);
    int k = 0;
    while (blocks[k].base) k++;
    blocks[k] = (Block){aligned_alloc(256, (n + 255) / 256 * 256), n, pools[i].device};
    pthread_mutex_unlock(&mutex);
    *out = (Handle)blocks[k].base;
    note("allocate %zu %lx", n, stream);
    return SUCCESS;
}
static Result cuMemFreeAsync(Handle address, Handle stream) { NEEDS_HEALTH;
    NEEDS(ready(stream));
    Block *found = block_of(address);
    if (!found) return INVALID_VALUE;
    for (int i = 0; i < n_pools; i++)
        if (pools[i].device == found->device && pools[i].used >= found->size) {
            pools[i].used -= found->size;
            break;
        }
    note("free %zu %lx", found->size, stream);
    free(found->base);
    found->base = 0;
    return SUCCESS;
}
static Result cuMemGetInfo(size_t *out, size_t *total) {
    NEEDS_CONTEXT;
    *total = room_for, *out = room_for;
    for (int i = 0; i < n_pools; i++)
        if (pools[i].device == device_of(current())) *out -= pools[i].used;
    return SUCCESS;
}
static Result cuPointerGetAttribute(int *out, int which, Handle address) {
    Block *found = block_of(address);
    if (!found) return INVALID_VALUE;
    *out = found->device;
    return SUCCESS;
}

static Result cuMemHostAlloc(void **out, size_t n, unsigned flags) {
    NEEDS_CONTEXT;
    *out = malloc(n);
    note("pinned %zu %u", n, flags);
    return SUCCESS;
}
static Result cuMemFreeHost(void *memory) {
    NEEDS_CONTEXT;
    free(memory);
    note("free pinned");
    return SUCCESS;
}
static Result cuMemcpyHtoDAsync(Handle to, const void *from, size_t n, Handle stream) {
    NEEDS(ready(stream)); NEEDS(inside(to, n));
    memcpy((void *)to, from, n);
    note("in %zu", n);
    return SUCCESS;
}
static Result cuMemcpyDtoHAsync(void *to, Handle from, size_t n, Handle stream) {
    NEEDS(ready(stream)); NEEDS(inside(from, n));
    memcpy(to, (void *)from, n);
    note("out %zu", n);
    return SUCCESS;
}
static Result cuMemcpyDtoDAsync(Handle to, Handle from, size_t n, Handle stream) {
    NEEDS(ready(stream)); NEEDS(inside(to, n)); NEEDS(inside(from, n));
    memcpy((void *)to, (void *)from, n);
    note("copy %zu", n);
    return SUCCESS;
}
static Result cuMemcpyPeerAsync(
    Handle to, void *there, Handle from, void *here, size_t n, Handle stream) {
    NEEDS(ready(stream)); NEEDS(inside(to, n)); NEEDS(inside(from, n));
    if (block_of(to)->device != device_of(there) || block_of(from)->device != device_of(here))
        return INVALID_CONTEXT;
    memcpy((void *)to, (void *)from, n);
    note("peer %zu", n);
    return SUCCESS;
}
static Result cuMemsetD8Async(Handle to, unsigned char byte, size_t n, Handle stream) {
    NEEDS(ready(stream)); NEEDS(inside(to, n));
    memset((void *)to, byte, n);
    note("fill %zu %d", n, byte);
    return SUCCESS;
}

static Result cuLibraryLoadData(
    Library **out, const void *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) { NEEDS_HEALTH;
    *out = calloc(1, sizeof **out);
    const char *at = code;
    int read;
    Kernel *next = (*out)->kernels;
    while (sscanf(at, "%63s %d%n", next->name, &next->n, &read) == 2) {
        at += read, next++, (*out)->n++;
    }
    return SUCCESS;
}
static Result cuLibraryUnload(Library *library) { return SUCCESS; }
static Result cuLibraryGetKernel(Kernel **out, Library *library, const char *name) {
    for (int i = 0; i < library->n; i++)
        if (!strcmp(library->kernels[i].name, name)) {
            *out = library->kernels + i;
            return SUCCESS;
        }
    return NOT_FOUND;
}
static Result cuKernelSetAttribute(int which, int value, Kernel *kernel, int device) {
    note("shared %s %d", kernel->name, value);
    kernel->shared = value;
    return which == 8 ? SUCCESS : INVALID_VALUE;
}
static Result cuKernelGetLibrary(Library **out, Kernel *kernel) { *out = 0; return NOT_FOUND; }

static void run(const Launch *launch) {
    note("launch %s %d %d %d", launch->kernel, launch->blocks, launch->threads, launch->shared);
    if (!strcmp(launch->kernel, "fill"))
        for (int64_t i = 0; i < launch->arguments[1]; i++)
            ((int64_t *)launch->arguments[0])[i] = launch->arguments[2];
}
static Result cuLaunchKernel(
    Kernel *kernel, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
    unsigned shared, Handle stream, void **arguments, void **extra) {
    NEEDS_HEALTH;
    Stream *of = stream_of(stream);
    if (!current() || device_of(current()) != of->device) return INVALID_CONTEXT;
    if (shared > (48 << 10) && (int)shared > kernel->shared) return INVALID_VALUE;
    if (!bx || !tx || tx > 1024 || by * bz * ty * tz != 1) return INVALID_VALUE;
    Launch launch = {.blocks = bx, .threads = tx, .shared = shared, .n = kernel->n};
    strcpy(launch.kernel, kernel->name);
    for (int i = 0; i < kernel->n; i++) launch.arguments[i] = *(int64_t *)arguments[i];
    if (of->capturing) of->graph->launches[of->graph->n++] = launch;
    else run(&launch);
    return SUCCESS;
}
/* how cuda.core launches */
typedef struct {
    unsigned blocks[3], threads[3], shared;
    Handle stream;
} Config;
static Result cuLaunchKernelEx(const Config *c, Kernel *kernel, void **arguments, void **extra) {
    return cuLaunchKernel(
        kernel, c->blocks[0], c->blocks[1], c->blocks[2], c->threads[0], c->threads[1],
        c->threads[2], c->shared, c->stream, arguments, extra);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static Result cuStreamBeginCapture(Stream *stream, int mode) { NEEDS_HEALTH;
    stream->capturing = 1;
    stream->graph = calloc(1, sizeof(Graph));
    return SUCCESS;
}
static Result cuStreamEndCapture(Stream *stream, Graph **out) {
    stream->capturing = 0;
    *out = stream->graph;
    note("captured %d", stream->graph->n);
    return SUCCESS;
}
static Result cuStreamIsCapturing(Handle stream, int *out) {
    *out = stream_of(stream)->capturing;
    return SUCCESS;
}
static Result cuStreamGetCaptureInfo(
    Handle stream, int *status, uint64_t *id, Graph **graph, void *a, void *b, size_t *n) {
    *status = stream_of(stream)->capturing;
    if (id) *id = 1;
    if (graph) *graph = stream_of(stream)->graph;
    if (n) *n = 0;
    return SUCCESS;
}
static Result cuGraphInstantiateWithFlags(Graph **out, Graph *graph, unsigned long long flags) {
    *out = malloc(sizeof **out);
    **out = *graph;
    note("instantiate %d", graph->n);
    return SUCCESS;
}
static Result cuGraphInstantiateWithParams(Graph **out, Graph *graph, void *parameters) {
    memset((char *)parameters + 16, 0, 12); /* the node that failed: none; the result: success */
    return cuGraphInstantiateWithFlags(out, graph, 0);
}
typedef struct { int result; void *node, *from; } UpdateInfo;
static Result cuGraphExecUpdate(Graph *instance, Graph *graph, UpdateInfo *info) {
    info->result = instance->n == graph->n ? 0 : 3; /* the topology changed */
    if (info->result) return GRAPH_UPDATE_FAILED;
    *instance = *graph;
    note("update");
    return SUCCESS;
}
static Result cuGraphLaunch(Graph *graph, Handle stream) { NEEDS_HEALTH;
    NEEDS(ready(stream));
    note("replay %d", graph->n);
    for (int i = 0; i < graph->n; i++) run(graph->launches + i);
    return SUCCESS;
}
/* what a graph keeps is kept here for ever */
static Result cuUserObjectCreate(void **out, void *p, void *destroy, unsigned n, unsigned flags) {
    *out = calloc(1, 8);
    return SUCCESS;
}
static Result cuUserObjectRelease(void *object, unsigned n) { return SUCCESS; }
static Result cuGraphRetainUserObject(Graph *graph, void *object, unsigned n, unsigned flags) {
    return SUCCESS;
}
static Result cuGraphReleaseUserObject(Graph *graph, void *object, unsigned n) { return SUCCESS; }
static Result cuGraphDestroy(Graph *graph) { return SUCCESS; }
static Result cuGraphExecDestroy(Graph *graph) { note("destroy graph"); return SUCCESS; }

/* ---- how functions are found ----------------------------------------------------------------- */

#define ENTRY(name) {#name, (void *)name}
static Result find(const char *, void **, int, uint64_t, int *);
static const struct { const char *name; void *function; } table[] = {
    ENTRY(cuInit), ENTRY(cuDriverGetVersion), ENTRY(cuGetErrorName), ENTRY(cuGetErrorString),
    ENTRY(cuDeviceGetCount), ENTRY(cuDeviceGet), ENTRY(cuDeviceGetName), ENTRY(cuDeviceGetUuid),
    ENTRY(cuDeviceGetAttribute), ENTRY(cuDevicePrimaryCtxRetain), ENTRY(cuDevicePrimaryCtxRelease),
    ENTRY(cuCtxGetCurrent), ENTRY(cuCtxSetCurrent), ENTRY(cuCtxPushCurrent), ENTRY(cuCtxPopCurrent),
    ENTRY(cuCtxGetDevice), ENTRY(cuCtxGetId), ENTRY(cuCtxSynchronize),
    ENTRY(cuCtxGetStreamPriorityRange), ENTRY(cuStreamCreateWithPriority), ENTRY(cuStreamDestroy),
    ENTRY(cuStreamGetFlags), ENTRY(cuStreamGetPriority), ENTRY(cuStreamGetCtx),
    ENTRY(cuStreamGetCtx_v2), ENTRY(cuStreamGetDevice), ENTRY(cuStreamSynchronize),
    ENTRY(cuStreamWaitEvent), ENTRY(cuEventCreate), ENTRY(cuEventDestroy), ENTRY(cuEventRecord),
    ENTRY(cuEventQuery), ENTRY(cuEventSynchronize), ENTRY(cuEventElapsedTime),
    ENTRY(cuMemPoolCreate), ENTRY(cuMemPoolDestroy), ENTRY(cuMemPoolSetAttribute),
    ENTRY(cuMemPoolGetAttribute), ENTRY(cuMemPoolTrimTo), ENTRY(cuMemPoolSetAccess), ENTRY(cuMemAllocFromPoolAsync),
    ENTRY(cuMemFreeAsync), ENTRY(cuMemGetInfo), ENTRY(cuPointerGetAttribute),
    ENTRY(cuMemHostAlloc), ENTRY(cuMemFreeHost),
    ENTRY(cuMemcpyHtoDAsync), ENTRY(cuMemcpyDtoHAsync), ENTRY(cuMemcpyDtoDAsync),
    ENTRY(cuMemcpyPeerAsync), ENTRY(cuMemsetD8Async), ENTRY(cuLibraryLoadData),
    ENTRY(cuLibraryUnload), ENTRY(cuLibraryGetKernel), ENTRY(cuKernelSetAttribute),
    ENTRY(cuKernelGetLibrary), ENTRY(cuLaunchKernel), ENTRY(cuLaunchKernelEx), ENTRY(cuStreamBeginCapture),
    ENTRY(cuStreamEndCapture), ENTRY(cuStreamIsCapturing), ENTRY(cuStreamGetCaptureInfo),
    ENTRY(cuGraphInstantiateWithFlags), ENTRY(cuGraphInstantiateWithParams),
    ENTRY(cuUserObjectCreate), ENTRY(cuUserObjectRelease), ENTRY(cuGraphRetainUserObject),
    ENTRY(cuGraphReleaseUserObject),
    ENTRY(cuGraphExecUpdate), ENTRY(cuGraphLaunch),
    ENTRY(cuGraphDestroy), ENTRY(cuGraphExecDestroy), {"cuGetProcAddress", (void *)find},
};

static Result find(const char *name, void **out, int at, uint64_t flags, int *status) {
    *out = 0;
    if (!strcmp(name, "cuStreamGetCtx") && at >= 12050) name = "cuStreamGetCtx_v2";
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].name, name)) *out = table[i].function;
    if (status) *status = *out ? 0 : 1;
    return *out ? SUCCESS : NOT_FOUND;
}

Result cuGetProcAddress_v2(const char *name, void **out, int at, uint64_t flags, int *status) {
    return find(name, out, at, flags, status);
}
