/* The eight functions that consenso calls, with the names and types of the standard ABI of MPI 5.0, on top of an MPI that does not have that ABI:
 * Open MPI 4 and 5, MPICH 3 and 4, and their relatives. Compile it with the mpicc of the MPI whose mpirun starts the job:
 *
 *   mpicc -O2 -shared -fPIC -o libconsenso_mpi.so deploy/mpi/abi.c -ldl
 *   CONSENSO_MPI=$PWD/libconsenso_mpi.so mpirun -n 4 consenso run big.toml
 *
 * Handles of the ABI are pointers and its constants small numbers; what stands behind them here are the handles of the MPI below, which are pointers or integers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>

#define ABI_COMM_WORLD 0x101
#define ABI_BYTE 0x247
#define ABI_THREAD_FUNNELED 1024

/* This file defines MPI's own names with other types, so they are written as labels of functions of ours. */
#define NAMED(name) __asm__(name) __attribute__((visibility("default")))

static int known(void *comm) { return (uintptr_t)comm == ABI_COMM_WORLD; }

static void *wrapped(MPI_Request request) {
  void *handle = NULL;
  memcpy(&handle, &request, sizeof request < sizeof handle ? sizeof request : sizeof handle);
  return handle;
}

static MPI_Request unwrapped(void *handle) {
  MPI_Request request;
  memcpy(&request, &handle, sizeof request < sizeof handle ? sizeof request : sizeof handle);
  return request;
}

int consenso_init(int *argc, void *argv, int required, int *provided) NAMED("MPI_Init_thread");
int consenso_init(int *argc, void *argv, int required, int *provided) {
  Dl_info info;
  /* The program opened this library for itself; parts that MPI loads later look for its names everywhere. */
  if (dladdr((void *)PMPI_Init_thread, &info) && info.dli_fname) dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  int level = required == ABI_THREAD_FUNNELED ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;
  int code = PMPI_Init_thread(argc, (char ***)argv, level, provided);
  if (provided) *provided = required;
  return code;
}

int consenso_rank(void *comm, int *rank) NAMED("MPI_Comm_rank");
int consenso_rank(void *comm, int *rank) { return known(comm) ? PMPI_Comm_rank(MPI_COMM_WORLD, rank) : MPI_ERR_COMM; }

int consenso_size(void *comm, int *size) NAMED("MPI_Comm_size");
int consenso_size(void *comm, int *size) { return known(comm) ? PMPI_Comm_size(MPI_COMM_WORLD, size) : MPI_ERR_COMM; }

/* Counts are 64 bits wide in the ABI and 32 here: what is longer than that goes as numbers of eight bytes, which all messages of consenso are. */
static int counted(int64_t *count, void *type, MPI_Datatype *as) {
  *as = MPI_BYTE;
  if ((uintptr_t)type != ABI_BYTE) return MPI_ERR_TYPE;
  if (*count > INT_MAX && *count % 8 == 0) {
    *as = MPI_DOUBLE;
    *count /= 8;
  }
  return *count > INT_MAX || *count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

int consenso_isend(const void *from, int64_t count, void *type, int rank, int tag, void *comm, void **request) NAMED("MPI_Isend_c");
int consenso_isend(const void *from, int64_t count, void *type, int rank, int tag, void *comm, void **request) {
  MPI_Datatype as;
  MPI_Request begun;
  int code = known(comm) ? counted(&count, type, &as) : MPI_ERR_COMM;
  if (code == MPI_SUCCESS) code = PMPI_Isend(from, (int)count, as, rank, tag, MPI_COMM_WORLD, &begun);
  if (code == MPI_SUCCESS) *request = wrapped(begun);
  return code;
}

int consenso_irecv(void *to, int64_t count, void *type, int rank, int tag, void *comm, void **request) NAMED("MPI_Irecv_c");
int consenso_irecv(void *to, int64_t count, void *type, int rank, int tag, void *comm, void **request) {
  MPI_Datatype as;
  MPI_Request begun;
  int code = known(comm) ? counted(&count, type, &as) : MPI_ERR_COMM;
  if (code == MPI_SUCCESS) code = PMPI_Irecv(to, (int)count, as, rank, tag, MPI_COMM_WORLD, &begun);
  if (code == MPI_SUCCESS) *request = wrapped(begun);
  return code;
}

int consenso_waitall(int count, void **requests, void *statuses) NAMED("MPI_Waitall");
int consenso_waitall(int count, void **requests, void *statuses) {
  int code = statuses ? MPI_ERR_ARG : MPI_SUCCESS; /* nobody asks for them */
  for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
    MPI_Request request = unwrapped(requests[i]);
    code = PMPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return code;
}

int consenso_abort(void *comm, int code) NAMED("MPI_Abort");
int consenso_abort(void *comm, int code) { return known(comm) ? PMPI_Abort(MPI_COMM_WORLD, code) : MPI_ERR_COMM; }

int consenso_finalize(void) NAMED("MPI_Finalize");
int consenso_finalize(void) { return PMPI_Finalize(); }
