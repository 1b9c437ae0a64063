! What the tests of `bulkhead mpirun` run in Fortran, as calls.c in C: compiled with -DF08 for `use mpi_f08`, with -DMODULE for
! `use mpi`, else for mpif.h. Each of these has names of its own for the functions of MPI.
#if defined(F08)
#define COMM type(MPI_Comm)
#define WINDOW type(MPI_Win)
#define INFO type(MPI_Info)
#else
#define COMM integer
#define WINDOW integer
#define INFO integer
#endif

program calls
#if defined(F08)
  use mpi_f08
#elif defined(MODULE)
  use mpi
#endif
  implicit none
#if !defined(F08) && !defined(MODULE)
  include 'mpif.h'
#endif
  integer :: rank, many, level, wanted, error, comma
  character(len=256) :: program, all, what, word
  COMM :: parent

  call get_command_argument(0, program)
  call get_command_argument(1, all)
  call get_command_argument(2, word)
  wanted = MPI_THREAD_SERIALIZED
  if (word == 'multiple') wanted = MPI_THREAD_MULTIPLE
  call MPI_Init_thread(wanted, level, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, many, error)
  call MPI_Comm_get_parent(parent, error)
  if (parent /= MPI_COMM_NULL) then
    call answer()
  else
    do while (all /= ' ')
      comma = scan(trim(all) // ',', ',')
      what = all(:comma - 1)
      all = all(comma + 1:)
      call run()
    end do
  end if
  call MPI_Finalize(error)

contains

  subroutine run()
    select case (what)
    case ('spawn')
      call spawn()
    case ('spawn_multiple')
      call spawn_multiple()
    case ('window')
      call create()
    case ('memory')
      call allocated()
    case ('dynamic')
      call dynamic()
    case default
      call MPI_Abort(MPI_COMM_WORLD, 9, error)
    end select
  end subroutine run

  subroutine answer()
    integer :: number
    if (rank == 0) then
      call MPI_Recv(number, 1, MPI_INTEGER, 0, 1, parent, MPI_STATUS_IGNORE, error)
      call MPI_Send(number + 1, 1, MPI_INTEGER, 0, 1, parent, error)
    end if
    call MPI_Comm_disconnect(parent, error)
  end subroutine answer

  subroutine ask(children)
    COMM, intent(inout) :: children
    integer :: got
    if (rank == 0) then
      call MPI_Send(41, 1, MPI_INTEGER, 0, 1, children, error)
      call MPI_Recv(got, 1, MPI_INTEGER, 0, 1, children, MPI_STATUS_IGNORE, error)
      print '(2a, i0)', trim(what), ': 41 gives ', got
    end if
    call MPI_Comm_disconnect(children, error)
  end subroutine ask

  subroutine spawn()
    COMM :: children
    call MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, &
                        MPI_ERRCODES_IGNORE, error)
    call ask(children)
  end subroutine spawn

  subroutine spawn_multiple()
    COMM :: children
    INFO :: infos(2)
    character(len=256) :: programs(2), arguments(2, 1)
    integer :: counts(2), errors(2)
    infos = MPI_INFO_NULL
    programs = program
    arguments = ' '
    counts = 1
    call MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, children, errors, error)
    call ask(children)
  end subroutine spawn_multiple

  ! Each rank puts its number into the next one's memory.
  subroutine put(win, at)
    WINDOW, intent(inout) :: win
    integer(kind=MPI_ADDRESS_KIND), intent(in) :: at
    call MPI_Win_fence(0, win, error)
    call MPI_Put(rank, 1, MPI_INTEGER, mod(rank + 1, many), at, 1, MPI_INTEGER, win, error)
    call MPI_Win_fence(0, win, error)
  end subroutine put

  subroutine told(got)
    integer, intent(in) :: got
    print '(2a, i0, a, i0, a, i0)', trim(what), ': rank ', rank, ' was given ', got, ' at level ', level
  end subroutine told

  subroutine create()
    WINDOW :: win
    integer, volatile, target :: got
    got = -1
    call MPI_Win_create(got, 4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
    call put(win, 0_MPI_ADDRESS_KIND)
    call told(got)
    call MPI_Win_free(win, error)
  end subroutine create

  subroutine allocated()
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_intptr_t
    WINDOW :: win
    integer, pointer :: got
#if defined(F08)
    type(c_ptr) :: base
    call MPI_Win_allocate(4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, error)
#else
    type(c_ptr) :: base
    integer(kind=MPI_ADDRESS_KIND) :: address
    call MPI_Win_allocate(4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, address, win, error)
    base = transfer(address, base)
#endif
    call c_f_pointer(base, got)
    call put(win, 0_MPI_ADDRESS_KIND)
    call told(got)
    call MPI_Win_free(win, error)
  end subroutine allocated

  subroutine dynamic()
    WINDOW :: win
    integer, volatile, target :: got
    integer(kind=MPI_ADDRESS_KIND) :: here, there
    got = -1
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
    call MPI_Win_attach(win, got, 4_MPI_ADDRESS_KIND, error)
    call MPI_Get_address(got, here, error)
    call MPI_Sendrecv(here, 1, MPI_AINT, mod(rank + many - 1, many), 2, there, 1, MPI_AINT, mod(rank + 1, many), 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call put(win, there)
    call told(got)
    call MPI_Win_free(win, error)
  end subroutine dynamic
end program calls
