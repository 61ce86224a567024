; MPI calls as library routines: every argument is passed by address (functrans/loop/messages.py).
;
; The process-specific arguments are in a record, which is bound when this code is loaded. HANDLE is
; the type of MPI's handles: i32 with MPICH, i64 (an address) with Open MPI. The record's words:
;
;      0  the communicator         1  the type of the elements      2  the operation
;      3  the rank of this process 4  MPI_PROC_NULL                 5  MPI_STATUS_IGNORE

@record = external global [6 x i64]

declare i32 @MPI_Allreduce(ptr, ptr, i32, HANDLE, HANDLE, HANDLE)
declare i32 @MPI_Allgather(ptr, i32, HANDLE, ptr, i32, HANDLE, HANDLE)
declare i32 @MPI_Reduce_scatter_block(ptr, ptr, i32, HANDLE, HANDLE, HANDLE)
declare i32 @MPI_Alltoall(ptr, i32, HANDLE, ptr, i32, HANDLE, HANDLE)
declare i32 @MPI_Sendrecv(ptr, i32, HANDLE, i32, i32, ptr, i32, HANDLE, i32, i32, HANDLE, ptr)

define internal HANDLE @handle(i64 %word) alwaysinline {
  %place = getelementptr i64, ptr @record, i64 %word
  %handle = load HANDLE, ptr %place
  ret HANDLE %handle
}

define void @allreduce(ptr %count, ptr %whole, ptr %sent, ptr %received, ptr %status) {
  %n = load i32, ptr %count
  %comm = call HANDLE @handle(i64 0)
  %type = call HANDLE @handle(i64 1)
  %op = call HANDLE @handle(i64 2)
  %error = call i32 @MPI_Allreduce(ptr %sent, ptr %received, i32 %n, HANDLE %type, HANDLE %op,
                                   HANDLE %comm)
  store i32 %error, ptr %status
  ret void
}

define void @allgather(ptr %count, ptr %whole, ptr %sent, ptr %received, ptr %status) {
  %n = load i32, ptr %count
  %comm = call HANDLE @handle(i64 0)
  %type = call HANDLE @handle(i64 1)
  %error = call i32 @MPI_Allgather(ptr %sent, i32 %n, HANDLE %type, ptr %received, i32 %n,
                                   HANDLE %type, HANDLE %comm)
  store i32 %error, ptr %status
  ret void
}

define void @reducescatter(ptr %count, ptr %whole, ptr %sent, ptr %received, ptr %status) {
  %n = load i32, ptr %count
  %comm = call HANDLE @handle(i64 0)
  %type = call HANDLE @handle(i64 1)
  %op = call HANDLE @handle(i64 2)
  %error = call i32 @MPI_Reduce_scatter_block(ptr %sent, ptr %received, i32 %n, HANDLE %type,
                                              HANDLE %op, HANDLE %comm)
  store i32 %error, ptr %status
  ret void
}

define void @alltoall(ptr %count, ptr %whole, ptr %sent, ptr %received, ptr %status) {
  %n = load i32, ptr %count
  %comm = call HANDLE @handle(i64 0)
  %type = call HANDLE @handle(i64 1)
  %error = call i32 @MPI_Alltoall(ptr %sent, i32 %n, HANDLE %type, ptr %received, i32 %n,
                                  HANDLE %type, HANDLE %comm)
  store i32 %error, ptr %status
  ret void
}

define internal i32 @neighbour(ptr %place) {
  %number = load i32, ptr %place
  %absent = icmp slt i32 %number, 0
  %word = getelementptr i64, ptr @record, i64 4
  %nobody = load i32, ptr %word
  %chosen = select i1 %absent, i32 %nobody, i32 %number
  ret i32 %chosen
}

define void @sendrecv(ptr %count, ptr %whole, ptr %sent, ptr %received, ptr %to, ptr %from,
                      ptr %status) {
  %n = load i32, ptr %count
  %comm = call HANDLE @handle(i64 0)
  %type = call HANDLE @handle(i64 1)
  %receiver = call i32 @neighbour(ptr %to)
  %sender = call i32 @neighbour(ptr %from)
  %word = getelementptr i64, ptr @record, i64 5
  %ignored = load ptr, ptr %word
  %error = call i32 @MPI_Sendrecv(ptr %sent, i32 %n, HANDLE %type, i32 %receiver, i32 0,
                                  ptr %received, i32 %n, HANDLE %type, i32 %sender, i32 0,
                                  HANDLE %comm, ptr %ignored)
  store i32 %error, ptr %status
  ret void
}

define void @rank(ptr %result) {
  %word = getelementptr i64, ptr @record, i64 3
  %number = load i64, ptr %word
  store i64 %number, ptr %result
  ret void
}
