//! A model as other programs read it: NumPy's `.npz`, an uncompressed zip of one `.npy`.

/// The bytes of an `.npz` whose only array, `model`, holds these numbers.
#[must_use]
pub fn npz(model: &[f64]) -> Vec<u8> {
    let array = npy(model);
    let mut crc = flate2::Crc::new();
    crc.update(&array);
    let name = b"model.npy";
    // Zip: a local header and the bytes, the central directory, and where to find it; method 0 is "stored".
    let common = |out: &mut Vec<u8>| {
        for half in [20u16, 0, 0, 0, 0x21] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        for word in [crc.sum(), array.len() as u32, array.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
    };
    let mut out = b"PK\x03\x04".to_vec();
    common(&mut out);
    out.extend_from_slice(name);
    out.extend_from_slice(&array);
    let directory = out.len() as u32;
    out.extend_from_slice(b"PK\x01\x02\x14\x00");
    common(&mut out);
    out.extend_from_slice(&[0; 14]);
    out.extend_from_slice(name);
    let length = out.len() as u32 - directory;
    out.extend_from_slice(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&directory.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
}

/// NumPy's format 1.0: magic, header padded to 64 bytes, numbers.
fn npy(model: &[f64]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}", model.len());
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    model.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header as `np.save` writes it; the file was read back by `np.load` and `zipfile.testzip`, bit for bit.
    #[test]
    fn the_array_is_the_one_numpy_writes() {
        let array = npy(&[1.5, -2.0]);
        assert_eq!(&array[..10], b"\x93NUMPY\x01\x00v\x00");
        assert_eq!(array.len(), 128 + 16);
        assert!(array[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }  "));
        assert_eq!(&array[128..], [1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat());
        let file = npz(&[1.5, -2.0]);
        assert_eq!(&file[..4], b"PK\x03\x04");
        assert_eq!(file.len(), 30 + 9 + 144 + 46 + 9 + 22);
    }
}
