//! A folder for rows that are too many for memory: private, and gone with the run.

use consenso_engine::data::{ReadAt, Scratch, ScratchFile};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of one of several processes in a folder that nobody else may look into. They go when this
/// value does; what killed processes left there goes when the next ones begin.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: PathBuf,
    rank: usize,
    ranks: usize,
}

impl ScratchFolder {
    /// Makes the folder, unless it is there, and removes what earlier processes left: those of the
    /// same rank, and of ranks that there are no more.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(folder: &Path, rank: usize, ranks: usize) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        let scratch = Self { folder: folder.to_path_buf(), rank, ranks: ranks.max(1) };
        scratch.remove();
        Ok(scratch)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("rank-{}-{name}.scratch", self.rank))
    }

    fn remove(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rank = name
                .to_str()
                .and_then(|name| {
                    name.strip_suffix(".scratch")?.strip_prefix("rank-")?.split('-').next()
                })
                .and_then(|rank| rank.parse::<usize>().ok());
            if rank.is_some_and(|rank| rank % self.ranks == self.rank) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        self.remove();
        // The last one to leave takes the folder away.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Scratch for ScratchFolder {
    fn begin(&self, name: &str) -> io::Result<Box<dyn ScratchFile>> {
        let path = self.file(name);
        // Another that is still being read stays whole.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(Written(BufWriter::with_capacity(1 << 20, options.open(path)?))))
    }
}

struct Written(BufWriter<File>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl ScratchFile for Written {
    fn done(mut self: Box<Self>) -> io::Result<Arc<dyn ReadAt>> {
        self.0.flush()?;
        Ok(Arc::new(Opened(self.0.into_inner().map_err(io::IntoInnerError::into_error)?)))
    }
}

struct Opened(File);

impl ReadAt for Opened {
    #[cfg(unix)]
    fn read_at(&self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, bytes, place)
    }

    #[cfg(windows)]
    fn read_at(&self, mut place: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = std::os::windows::fs::FileExt::seek_read(&self.0, bytes, place)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[count..];
            place += count as u64;
        }
        Ok(())
    }
}
