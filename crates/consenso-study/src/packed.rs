//! Files that are packed with gzip or zstd.

use std::io::Read as _;

use consenso_engine::data::{DataError, Format, Schema, Table, csv};
use flate2::read::MultiGzDecoder;

/// Unpacks what is packed with gzip or zstd, by its first bytes, and names the packing; everything
/// else is handed back as it is.
///
/// # Errors
/// Bytes that begin like a packed file and do not end like one.
pub fn unpack(bytes: Vec<u8>) -> std::io::Result<(Vec<u8>, Option<&'static str>)> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked)?;
        Ok((unpacked, Some("gzip")))
    } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Ok((unpack_zstd(&bytes)?, Some("zstd")))
    } else {
        Ok((bytes, None))
    }
}

/// Frames one after the other, as `zstd` and `cat` make them.
fn unpack_zstd(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut decoder =
            ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(std::io::Error::other)?;
        decoder.read_to_end(&mut unpacked)?;
    }
    Ok(unpacked)
}

/// Reads a CSV as [`csv::read_as`] does, packed or not; [`Table::reading`] says which.
///
/// # Errors
/// As [`csv::read_as`], and for bytes that cannot be unpacked.
pub fn read_csv(
    bytes: Vec<u8>,
    file: &str,
    schema: &Schema,
    format: &Format,
) -> Result<Table, DataError> {
    let (bytes, packed) =
        unpack(bytes).map_err(|source| DataError::Read { file: file.to_owned(), source })?;
    let table = csv::read_as(&bytes[..], file, schema, format)?;
    Ok(match packed {
        Some(compression) => table.unpacked(compression),
        None => table,
    })
}
