use proptest::prelude::*;

use super::*;

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), long(data)].concat()
}

fn sni(name: &str) -> Vec<u8> {
    extension(0, &long(&[vec![0], long(name.as_bytes())].concat()))
}

/// A handshake message with these extensions; none at all for `None`.
fn hello(extensions: Option<&[Vec<u8>]>) -> Vec<u8> {
    let mut body =
        [&[3, 3][..], &[7; 32], &short(&[9; 32]), &long(&[0x13, 1]), &short(&[0])].concat();
    if let Some(extensions) = extensions {
        body.extend(long(&extensions.concat()));
    }
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &length[1..], &body].concat()
}

/// The message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|part| [vec![22, 3, 1], long(part)].concat()).collect()
}

fn record(message: &[u8]) -> Vec<u8> {
    records(message, MAX_RECORD_BYTES)
}

fn server_name(bytes: &[u8]) -> Result<Option<String>, Denial> {
    super::server_name(bytes).map(|found| found.map(|(name, _)| name))
}

#[test]
fn e3_only_a_handshake_that_names_its_host_passes() {
    let check = |bytes: &[u8], expected: Result<Option<&str>, Denial>| {
        assert_eq!(server_name(bytes), expected.map(|name| name.map(str::to_owned)));
    };
    let grease = || extension(0x0a0a, &[]);
    let named = |more: &[Vec<u8>]| hello(Some(&[&[grease(), sni("a.test")], more].concat()));
    use Denial::{Ech, Malformed, NoSni, NotTls, TooLarge};
    check(&record(&named(&[])), Ok(Some("a.test")));
    check(&record(&named(&[extension(0xfafa, &[0])])), Ok(Some("a.test")));
    check(&records(&named(&[]), 1), Ok(Some("a.test")));
    // Early data behind it is not looked at.
    check(&[record(&named(&[])), vec![23, 3, 3, 0, 1, 0]].concat(), Ok(Some("a.test")));
    // No name.
    check(&record(&hello(None)), Err(NoSni));
    check(&record(&hello(Some(&[]))), Err(NoSni));
    check(&record(&hello(Some(&[grease()]))), Err(NoSni));
    // A hidden name, and what cannot be told from one.
    for kind in [0xfe0d, 0xfe08, 0xffce] {
        check(&record(&named(&[extension(kind, &[0; 64])])), Err(Ech));
        check(&record(&hello(Some(&[extension(kind, &[])]))), Err(Ech));
    }
    // Two names.
    check(&record(&named(&[sni("b.test")])), Err(Malformed));
    let two = [vec![0], long(b"a.test"), vec![0], long(b"b.test")].concat();
    check(&record(&hello(Some(&[extension(0, &long(&two))]))), Err(Malformed));
    check(&record(&hello(Some(&[extension(0, &long(&[]))]))), Err(Malformed));
    check(&record(&hello(Some(&[extension(0, &long(&[1, 0, 1, b'a']))]))), Err(Malformed));
    check(&record(&hello(Some(&[extension(0, &long(&[0, 0, 1, 0xff]))]))), Err(Malformed));
    // Not TLS, and too old to name a host.
    check(b"GET / HTTP/1.1\r\n\r\n", Err(NotTls));
    check(b"SSH-2.0-x\r\n", Err(NotTls));
    check(&[0x80, 46, 1, 3, 1], Err(NotTls));
    check(&[23, 3, 3, 0, 1, 0], Err(NotTls));
    check(&[22, 2, 0, 0, 1, 1], Err(NotTls));
    check(&record(&[2, 0, 0, 1, 0]), Err(NotTls));
    // Broken.
    check(&[22, 3, 1, 0, 0], Err(Malformed));
    check(&[22, 3, 1, 0x40, 1], Err(Malformed));
    check(&record(&[1, 1, 0, 0]), Err(TooLarge));
    check(&record(&[1, 0, 0, 2, 3, 3]), Err(Malformed));
    check(&record(&[named(&[]), vec![0]].concat()), Err(Malformed));
    check(&[records(&named(&[])[..9], 9), vec![23, 3, 3]].concat(), Err(Malformed));
    let mut trailing = named(&[]);
    trailing.push(0);
    trailing[3] += 1;
    check(&record(&trailing), Err(Malformed));
    check(&[], Ok(None));
    check(&[22], Ok(None));
}

/// A server's hello of this kind, with these random bytes.
fn answer(kind: u8, random: [u8; 32]) -> Vec<u8> {
    let body = [&[3, 3][..], &random, &short(&[9; 32]), &[0x13, 1, 0], &long(&[])].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], &body].concat()
}

#[test]
fn e3_a_server_that_asks_again_is_noticed() {
    let check = |bytes: &[u8], expected: Option<bool>| {
        assert_eq!(asks_again(bytes), expected, "{bytes:?}");
    };
    let again = record(&answer(2, RETRY));
    check(&again, Some(true));
    check(&[again.clone(), vec![20, 3, 3, 0, 1, 1]].concat(), Some(true));
    check(&records(&answer(2, RETRY), 1), Some(true));
    check(&record(&answer(2, [7; 32])), Some(false));
    // Older versions put further messages into the same record.
    check(&record(&[answer(2, [7; 32]), vec![11, 0, 0, 0]].concat()), Some(false));
    check(&record(&answer(4, RETRY)), Some(false));
    check(&[21, 3, 3, 0, 2, 2, 40], Some(false));
    check(b"pong", Some(false));
    check(&again[..20], None);
    check(&[], None);
}

#[test]
fn e3_the_second_hello_names_its_host_too() {
    let check = |bytes: &[u8], expected: Result<Option<(&str, usize)>, Denial>| {
        let expected = expected.map(|found| found.map(|(name, end)| (name.to_owned(), end)));
        assert_eq!(second_server_name(bytes), expected, "{bytes:?}");
    };
    let second = record(&hello(Some(&[sni("a.test")])));
    let early = [vec![20, 3, 3, 0, 1, 1], vec![23, 3, 3, 0, 3, 9, 9, 9]].concat();
    check(&second, Ok(Some(("a.test", second.len()))));
    let both = [early.clone(), second.clone()].concat();
    check(&both, Ok(Some(("a.test", both.len()))));
    check(&[both.clone(), vec![23, 3, 3, 0, 1, 0]].concat(), Ok(Some(("a.test", both.len()))));
    for end in 0..both.len() {
        check(&both[..end], Ok(None));
    }
    check(&[early, record(&hello(None))].concat(), Err(Denial::NoSni));
    check(&[21, 3, 3, 0, 2, 2, 40], Err(Denial::NotTls));
}

fn first_answer(bytes: &[u8]) -> Result<Option<String>, Denial> {
    (0..=bytes.len())
        .map(|end| server_name(&bytes[..end]))
        .find(|found| *found != Ok(None))
        .unwrap_or(Ok(None))
}

proptest! {
    #[test]
    fn every_split_of_a_handshake_is_read_as_one_shot(
        size in 1usize..90, at in 0usize..90, flip in any::<u8>(), cut in 0usize..120,
    ) {
        let whole = record(&hello(Some(&[sni("a.test"), extension(0x1a1a, &[0])])));
        prop_assert_eq!(first_answer(&whole), Ok(Some("a.test".to_owned())));
        let split = records(&hello(Some(&[sni("a.test")])), size);
        prop_assert_eq!(first_answer(&split), Ok(Some("a.test".to_owned())));
        let mut damaged = whole;
        let at = at % damaged.len();
        damaged[at] ^= flip;
        damaged.truncate(cut);
        // Whatever comes in pieces gets the answer that it gets as one.
        let (pieces, one) = (first_answer(&damaged), server_name(&damaged));
        if one.is_ok() {
            prop_assert_eq!(pieces, one);
        } else {
            prop_assert!(pieces.is_err(), "{:?}", pieces);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = server_name(&bytes);
        let _ = server_name(&record(&[&[1, 0, 0, 100][..], &bytes].concat()));
    }
}
