//! Inputs that are sequences of byte strings, each with a two-byte length prefix.

/// Returns an input's byte strings. The last one may be shorter than its length prefix.
pub fn read(mut data: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk()?;
        let (record, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        data = rest;
        Some(record)
    })
}

/// Returns the input with these byte strings.
pub fn write<'a>(records: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let with_length = |record: &Vec<u8>| {
        let length = u16::try_from(record.len()).expect("a record is short");
        [&length.to_be_bytes(), record.as_slice()].concat()
    };
    records.into_iter().flat_map(with_length).collect()
}
