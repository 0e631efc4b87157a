//! Processes that MPI started, as the [`Ranks`] of a large simulation.
//!
//! The library is loaded when the program runs, through the standard ABI of MPI 5.0
//! (`libmpi_abi.so`): nothing of MPI is needed to build, and one binary works with every
//! implementation that has the ABI. MPICH 5 has it; `pip install mpich` brings it with `mpirun`.
//!
//! This is the only crate of the project with unsafe code. It calls eight functions, from one
//! thread, with buffers that it owns until MPI has let go of them.

use consenso_engine::simulate::{RankError, Ranks};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;

/// Handles are pointers in the standard ABI, and constants are small numbers.
type Handle = *mut c_void;
const COMM_WORLD: usize = 0x101;
const BYTE: usize = 0x247;
const THREAD_FUNNELED: c_int = 1024;
/// All messages of a simulation come in the order they are sent, so one tag is enough.
const TAG: c_int = 1;

type InitThread = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type Ask = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type Isend =
    unsafe extern "C" fn(*const c_void, i64, Handle, c_int, c_int, Handle, *mut Handle) -> c_int;
type Irecv =
    unsafe extern "C" fn(*mut c_void, i64, Handle, c_int, c_int, Handle, *mut Handle) -> c_int;
type Waitall = unsafe extern "C" fn(c_int, *mut Handle, *mut c_void) -> c_int;
type Abort = unsafe extern "C" fn(Handle, c_int) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

struct Functions {
    isend: Isend,
    irecv: Irecv,
    waitall: Waitall,
    abort: Abort,
    finalize: Finalize,
    /// Must outlive the pointers above.
    _library: Library,
}

/// The processes of one `mpirun`, as seen by one of them. It stays on the thread that made it.
pub struct Mpi {
    functions: Functions,
    rank: usize,
    ranks: usize,
    requests: Vec<Handle>,
    /// What is being sent: MPI reads it until it is collected.
    sending: Vec<Vec<f64>>,
    /// What is being received: MPI writes it until it is collected.
    receiving: Vec<Vec<f64>>,
    /// MPI was promised calls from one thread only.
    _one_thread: PhantomData<*mut ()>,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi(rank {} of {})", self.rank, self.ranks)
    }
}

/// How many processes `mpirun` or `srun` says it started; `None` outside of either. No library is
/// loaded to find out.
#[must_use]
pub fn launched() -> Option<usize> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    // MPICH and its relatives, Open MPI, and whatever speaks PMIx under Slurm.
    let size = number("PMI_SIZE").or_else(|| number("OMPI_COMM_WORLD_SIZE"));
    let slurm = || number("SLURM_NTASKS").filter(|_| std::env::var_os("PMIX_RANK").is_some());
    size.or_else(slurm).filter(|&size| size > 0)
}

/// Where the library may be, beside where the system looks.
fn candidates() -> Vec<String> {
    let mut names: Vec<String> = std::env::var("CONSENSO_MPI").into_iter().collect();
    names.extend(
        ["libmpi_abi.so.1", "libmpi_abi.so", "libmpi_abi.0.dylib", "libmpi_abi.dylib"]
            .map(str::to_owned),
    );
    names
}

/// Why this process did not join the others.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// No library was found.
    #[error(
        "no MPI library with the standard ABI was found ({}); install MPICH 5 (`pip install mpich` has it), \
         or name the file libmpi_abi.so in CONSENSO_MPI",
        tried.join("; ")
    )]
    NotFound {
        /// Every name that was tried, with what the loader said.
        tried: Vec<String>,
    },
    /// The library is none with the standard ABI.
    #[error("the MPI library lacks a function: {0}")]
    Lacks(libloading::Error),
    /// The library refused to start.
    #[error(transparent)]
    Refused(#[from] RankError),
}

impl Mpi {
    /// Loads the library and joins the other processes. To be called once, on the thread that will
    /// do all messages.
    ///
    /// # Errors
    /// [`JoinError`] when there is no library with the standard ABI, or when it refuses.
    pub fn join() -> Result<Self, JoinError> {
        let mut tried = Vec::new();
        let library = candidates()
            .into_iter()
            .find_map(|name| open(&name).map_err(|e| tried.push(said(&name, &e))).ok());
        Self::start(library.ok_or(JoinError::NotFound { tried })?)
    }

    #[expect(unsafe_code, reason = "calls a C library")]
    fn start(library: Library) -> Result<Self, JoinError> {
        // SAFETY: the names are those of MPI 5.0, section 20 (ABI), and the types are their C
        // prototypes there.
        let (init, rank, size, functions) = unsafe {
            let init = *library.get::<InitThread>(b"MPI_Init_thread").map_err(JoinError::Lacks)?;
            let rank = *library.get::<Ask>(b"MPI_Comm_rank").map_err(JoinError::Lacks)?;
            let size = *library.get::<Ask>(b"MPI_Comm_size").map_err(JoinError::Lacks)?;
            let functions = Functions {
                isend: *library.get::<Isend>(b"MPI_Isend_c").map_err(JoinError::Lacks)?,
                irecv: *library.get::<Irecv>(b"MPI_Irecv_c").map_err(JoinError::Lacks)?,
                waitall: *library.get::<Waitall>(b"MPI_Waitall").map_err(JoinError::Lacks)?,
                abort: *library.get::<Abort>(b"MPI_Abort").map_err(JoinError::Lacks)?,
                finalize: *library.get::<Finalize>(b"MPI_Finalize").map_err(JoinError::Lacks)?,
                _library: library,
            };
            (init, rank, size, functions)
        };
        let (mut provided, mut me, mut all) = (0, 0, 0);
        let world = COMM_WORLD as Handle;
        // SAFETY: both arguments may be null; the others point to numbers that outlive the calls,
        // and COMM_WORLD is valid after the first.
        let codes = unsafe {
            [
                init(std::ptr::null_mut(), std::ptr::null_mut(), THREAD_FUNNELED, &mut provided),
                rank(world, &mut me),
                size(world, &mut all),
            ]
        };
        codes.into_iter().try_for_each(good)?;
        Ok(Self {
            functions,
            rank: me as usize,
            ranks: all as usize,
            requests: Vec::new(),
            sending: Vec::new(),
            receiving: Vec::new(),
            _one_thread: PhantomData,
        })
    }

    /// Ends all processes of the job at once, because this one cannot go on. The message is for
    /// people.
    #[expect(unsafe_code, reason = "calls a C library")]
    pub fn abort(&self, message: &str) {
        eprintln!("rank {} of {}: {message}", self.rank, self.ranks);
        // SAFETY: MPI was initialised when this value was made. The call may return; nothing is
        // assumed of what follows.
        unsafe { (self.functions.abort)(COMM_WORLD as Handle, 1) };
    }
}

#[expect(unsafe_code, reason = "loads a C library")]
fn open(name: &str) -> Result<Library, libloading::Error> {
    // SAFETY: loading runs the library's initialisers; that of an MPI library is what the user
    // asked for.
    unsafe { Library::new(name) }
}

/// What the loader said of a library: its error says only that it failed, and the source of that
/// has its own words.
fn said(name: &str, error: &libloading::Error) -> String {
    let cause =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    format!("{name}: {cause}")
}

fn good(code: c_int) -> Result<(), RankError> {
    if code == 0 { Ok(()) } else { Err(RankError::Mpi(code)) }
}

impl Ranks for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    #[expect(unsafe_code, reason = "calls a C library")]
    fn post(
        &mut self,
        out: Vec<(usize, Vec<f64>)>,
        expected: &[(usize, usize)],
    ) -> Result<(), RankError> {
        if !self.requests.is_empty() {
            return Err(RankError::PostedTwice);
        }
        let (world, byte) = (COMM_WORLD as Handle, BYTE as Handle);
        self.receiving = expected.iter().map(|&(_, count)| vec![0.0; count]).collect();
        for (buffer, &(rank, _)) in self.receiving.iter_mut().zip(expected) {
            let mut request = std::ptr::null_mut();
            let bytes = size_of_val(&buffer[..]) as i64;
            // SAFETY: the buffer has so many bytes, is ours alone, and is neither moved nor dropped
            // before `collect` has waited: `receiving` is touched nowhere else, and `Drop` waits
            // too.
            let code = unsafe {
                (self.functions.irecv)(
                    buffer.as_mut_ptr().cast(),
                    bytes,
                    byte,
                    rank as c_int,
                    TAG,
                    world,
                    &mut request,
                )
            };
            good(code)?;
            self.requests.push(request);
        }
        let (ranks, buffers): (Vec<usize>, Vec<Vec<f64>>) = out.into_iter().unzip();
        self.sending = buffers;
        for (buffer, &rank) in self.sending.iter().zip(&ranks) {
            let mut request = std::ptr::null_mut();
            let bytes = size_of_val(&buffer[..]) as i64;
            // SAFETY: as above; MPI only reads it.
            let code = unsafe {
                (self.functions.isend)(
                    buffer.as_ptr().cast(),
                    bytes,
                    byte,
                    rank as c_int,
                    TAG,
                    world,
                    &mut request,
                )
            };
            good(code)?;
            self.requests.push(request);
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "calls a C library")]
    fn collect(&mut self) -> Result<Vec<Vec<f64>>, RankError> {
        let count = self.requests.len() as c_int;
        // SAFETY: the requests are those that were begun and not yet waited for; a null array of
        // statuses means that nobody asks for them.
        let code = unsafe {
            (self.functions.waitall)(count, self.requests.as_mut_ptr(), std::ptr::null_mut())
        };
        self.requests.clear();
        self.sending.clear();
        good(code)?;
        Ok(std::mem::take(&mut self.receiving))
    }
}

impl Drop for Mpi {
    #[expect(unsafe_code, reason = "calls a C library")]
    fn drop(&mut self) {
        // Buffers must not go while MPI may write them: a process that has not collected cannot
        // leave in peace.
        if !self.requests.is_empty() || std::thread::panicking() {
            self.abort("ends in the middle of an exchange");
            std::process::exit(1);
        }
        // SAFETY: MPI was initialised when this value was made, nothing is under way, and no
        // function is called after this.
        unsafe { (self.functions.finalize)() };
    }
}
