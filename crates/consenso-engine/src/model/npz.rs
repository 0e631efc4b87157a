//! Arrays as NumPy reads them: an `.npz` is an uncompressed zip of `.npy` files.

/// One array of an `.npz`.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// Its numbers, row by row.
    pub values: &'a [f64],
}

/// The bytes of an `.npz` with these arrays.
#[must_use]
pub fn npz(arrays: &[Array<'_>]) -> Vec<u8> {
    // Zip: a local header and the bytes of each file, the central directory, and where to find it;
    // method 0 is "stored".
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for array in arrays {
        let (bytes, name, start) = (npy(array), format!("{}.npy", array.name), out.len() as u32);
        let mut common = Vec::new();
        for half in [20u16, 0, 0, 0, 0x21] {
            common.extend_from_slice(&half.to_le_bytes());
        }
        for word in [crc32(&bytes), bytes.len() as u32, bytes.len() as u32] {
            common.extend_from_slice(&word.to_le_bytes());
        }
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&common);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&bytes);
        directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&start.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (start, count) = (out.len() as u32, (arrays.len() as u16).to_le_bytes());
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\x00\x00\x00\x00");
    out.extend_from_slice(&count);
    out.extend_from_slice(&count);
    out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
}

/// The checksum of zip files: the polynomial 0x04C11DB7, bits reversed.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let table: [u32; 256] = std::array::from_fn(|byte| (0..8).fold(byte as u32, |crc, _| bit(crc)));
    !bytes
        .iter()
        .fold(!0, |crc, &byte| (crc >> 8) ^ table[((crc ^ u32::from(byte)) & 0xff) as usize])
}

/// NumPy's format 1.0: magic, header padded to 64 bytes, numbers.
fn npy(array: &Array<'_>) -> Vec<u8> {
    let shape: String = array.shape.iter().map(|n| format!("{n}, ")).collect();
    let shape =
        if array.shape.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    array.values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header as `np.save` writes it; such files were read back by `np.load` and
    /// `zipfile.testzip`, bit for bit.
    #[test]
    fn the_array_is_the_one_numpy_writes() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let model = Array { name: "model", shape: &[2], values: &[1.5, -2.0] };
        let array = npy(&model);
        assert_eq!(&array[..10], b"\x93NUMPY\x01\x00v\x00");
        assert_eq!(array.len(), 128 + 16);
        assert!(
            array[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }  ")
        );
        assert_eq!(&array[128..], [1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat());
        let file = npz(&[model]);
        assert_eq!(&file[..4], b"PK\x03\x04");
        assert_eq!(file.len(), 30 + 9 + 144 + 46 + 9 + 22);
        let agents = Array { name: "agents", shape: &[1, 2], values: &[1.5, -2.0] };
        assert!(
            npy(&agents)[10..]
                .starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }")
        );
        assert_eq!(
            npz(&[model, agents]).len(),
            22 + (30 + 9 + 144 + 46 + 9) + (30 + 10 + 144 + 46 + 10)
        );
    }
}
