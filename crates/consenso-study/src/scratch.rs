//! A folder for rows that are too many for memory: private, and gone with the run.

use consenso_engine::data::{ReadAt, Scratch, ScratchFile};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in a folder that nobody else may look into. They go when this value does; what a killed process left in the folder goes when the next one begins.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: PathBuf,
    /// Tells the files of processes that share a folder apart.
    prefix: String,
}

impl ScratchFolder {
    /// Makes the folder, unless it is there, and removes files of the same prefix. Only the user may open it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(folder: &Path, prefix: &str) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        let scratch = Self { folder: folder.to_path_buf(), prefix: prefix.to_owned() };
        scratch.remove();
        Ok(scratch)
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}-{name}.scratch", self.prefix))
    }

    fn remove(&self) {
        let (start, end) = (format!("{}-", self.prefix), ".scratch");
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&start) && name.ends_with(end)) {
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
