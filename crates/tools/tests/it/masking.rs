//! Cases H7 and H8: a registered secret survives in no form and no cut; the rest is untouched.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use glasshouse_tools::sanitise::{MAX_SECRET_BYTES, Masker, Secret};
use proptest::prelude::*;

fn masker(secrets: &[(&str, &[u8])]) -> Masker {
    let secrets: Vec<Secret> =
        secrets.iter().map(|(name, value)| Secret::new(name, value).unwrap()).collect();
    Masker::new(&secrets, &[]).unwrap()
}

/// Masks a text in pieces of the given sizes, over and over.
fn in_pieces(masker: &Masker, text: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut stream = masker.stream();
    let mut out = Vec::new();
    let mut rest = text;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at((*size).clamp(1, rest.len()));
        out.extend(stream.push(piece));
        rest = behind;
    }
    out.extend(stream.finish());
    out
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn percent(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("%{byte:02X}").into_bytes()).collect()
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

#[test]
fn texts_are_masked() {
    let masker = masker(&[
        ("zq", b"zq9-KLMNOP/+x"),
        ("left", b"abcdefgh"),
        ("right", b"efghijkl"),
        ("long", b"abcdefghij"),
    ]);
    let check = |text: &str, expected: &str| {
        assert_eq!(masker.mask_str(text), expected, "{text}");
        for size in 1..7 {
            let pieces = in_pieces(&masker, text.as_bytes(), &[size]);
            assert_eq!(String::from_utf8(pieces).unwrap(), expected, "{text} by {size}");
        }
    };
    check("", "");
    check("nothing here", "nothing here");
    check("zq9-KLMNOP/+x", "[secret:zq]");
    check("a zq9-KLMNOP/+x b zq9-KLMNOP/+x", "a [secret:zq] b [secret:zq]");
    check("zq9-KLMNOP/+", "zq9-KLMNOP/+");
    check("zq9-KLMNOP%2F%2Bx", "[secret:zq]");
    check("zq9-KLMNOP%2f%2bx", "[secret:zq]");
    check("zq9-KLMNOP/%2Bx", "zq9-KLMNOP/%2Bx");
    check(&format!("Basic {}", STANDARD.encode("zq9-KLMNOP/+x")), "Basic [secret:zq]");
    check("/home/zq9-KLMNOP/+x/file.txt", "/home/[secret:zq]/file.txt");
    // Overlapping secrets leave no rest, whichever came first.
    check("abcdefghijkl", "[secret:long]");
    check("xabcdefghx", "x[secret:left]x");
    check("abcdefghabcdefgh", "[secret:left][secret:left]");
    check("abcdabcdefgh", "abcd[secret:left]");
    // Tokens that nobody registered, also in pieces, and of any length.
    let token = "ghp_0123456789abcdefABCDEF";
    check(&format!("x {token} y"), "x [secret:github] y");
    check(&format!("{token}{}.", "z9".repeat(200)), "[secret:github].");
    check("sk-loading-spinner-dark-theme", "sk-loading-spinner-dark-theme");
    check("ask-a1B2c3D4e5F6g7H8i9J0", "ask-a1B2c3D4e5F6g7H8i9J0");
    // A secret that begins inside a token and ends behind it.
    check("ghp_0123456789abcdefzq9-KLMNOP/+x!", "[secret:github]!");
}

#[test]
fn patterns_are_masked_and_must_be_bounded() {
    let masker = Masker::new(&[], &[("acme", r"\bacme_[a-z]{4,9}\b")]).unwrap();
    for size in 1..20 {
        let text = b"x acme_abcd, acme_abc, xacme_abcd acme_abcdefghi acme_abcdefghij";
        let seen = in_pieces(&masker, text, &[size]);
        let expected = "x [secret:acme], acme_abc, xacme_abcd [secret:acme] acme_abcdefghij";
        assert_eq!(String::from_utf8(seen).unwrap(), expected, "by {size}");
    }
    for bad in ["a+", "a*", "", "a{1,9999}", "^abc", "abc$", "(", r"\p{Greek}"] {
        let error = Masker::new(&[], &[("bad", bad)]).unwrap_err();
        assert_eq!(error.code(), "invalid_pattern", "{bad}");
    }
}

#[test]
fn secrets_that_cannot_be_masked_are_refused() {
    let long = vec![b'x'; MAX_SECRET_BYTES + 1];
    for (name, value) in [
        ("short", &b"1234567"[..]),
        ("long", &long),
        ("", b"12345678"),
        ("a]b", b"12345678"),
        ("a b", b"12345678"),
    ] {
        assert_eq!(Secret::new(name, value).unwrap_err().code(), "secret_unusable", "{name}");
    }
    let shown = format!("{:?}", Secret::new("name", b"hunter2-hunter2").unwrap());
    assert_eq!(shown, "Secret(name)");
    assert!(!format!("{:?}", masker(&[("name", b"hunter2-hunter2")])).contains("hunter2"));
}

/// Text passes a stream at once unless its end could begin a secret.
#[test]
fn streams_hold_back_little() {
    let masker = masker(&[("s", b"correct horse battery staple")]);
    let mut stream = masker.stream();
    assert_eq!(stream.push(b"an ordinary sentence."), b"an ordinary sentence.");
    assert_eq!(stream.push(b" It is correct"), b" It is ");
    assert_eq!(stream.held_bytes(), "correct".len());
    assert_eq!(stream.push(b"."), b"correct.");

    // However long a token is, it is not kept.
    assert_eq!(stream.push(b" ghp_0123456789abcdef0123"), b" [secret:github]");
    for _ in 0..1_000 {
        assert_eq!(stream.push(b"0123456789-0123456789-x"), b"");
        assert!(stream.held_bytes() <= 64);
    }
    assert_eq!(stream.push(b" done"), b" done");
}

/// Control: a filter that looks at each piece alone lets a secret through that lies across two.
#[test]
fn a_filter_without_memory_leaks() {
    let secret = "correct horse";
    let pieces = ["pw=correct ", "horse"];
    let careless: String = pieces.iter().map(|piece| piece.replace(secret, "[masked]")).collect();
    assert!(careless.contains(secret), "control");
    let masker = masker(&[("pw", secret.as_bytes())]);
    let seen = in_pieces(&masker, pieces.concat().as_bytes(), &[11]);
    assert_eq!(seen, b"pw=[secret:pw]");
}

/// A repetitive secret in repetitive text is the worst case for overlaps; time stays linear.
#[test]
fn repetition_is_cheap() {
    let masker = masker(&[("a", &[b'a'; 64])]);
    let text = vec![b'a'; 1 << 18];
    assert_eq!(masker.mask(&text), b"[secret:a]");
    assert_eq!(in_pieces(&masker, &text, &[4096]), b"[secret:a]");
    let text = b"sk-".repeat(1 << 16);
    assert_eq!(masker.mask(&text).len(), text.len());
    let text = b"ghp_0123456789abcdef-".repeat(1 << 14);
    assert_eq!(masker.mask(&text), b"[secret:github]");
}

/// Ordinary text that can neither be nor complete a secret or a token: see `secret()`.
fn filler() -> impl Strategy<Value = Vec<u8>> {
    "[a-f .,:\n]{0,40}".prop_map(String::into_bytes)
}

/// Letters that neither filler, hexadecimal digits nor prefixes of tokens have in common.
fn secret() -> impl Strategy<Value = Vec<u8>> {
    "[P-Z/+&=ü\"]{8,40}".prop_map(String::into_bytes)
}

/// A secret as it may appear, by the number of a form.
fn shown(secret: &[u8], form: usize) -> Vec<u8> {
    match form {
        0 => secret.to_vec(),
        1 => STANDARD.encode(secret).into_bytes(),
        2 => URL_SAFE_NO_PAD.encode(secret).into_bytes(),
        3 => hex(secret),
        4 => hex(secret).to_ascii_uppercase(),
        5 => percent(secret),
        6 => {
            let quoted = serde_json::Value::from(std::str::from_utf8(secret).unwrap()).to_string();
            quoted.as_bytes()[1..quoted.len() - 1].to_vec()
        }
        _ => unreachable!("seven forms"),
    }
}

/// Masks every occurrence of every secret, what overlaps as one.
fn reference(text: &[u8], secrets: &[&[u8]]) -> Vec<u8> {
    let (mut out, mut masked_until) = (Vec::new(), 0);
    for (at, byte) in text.iter().enumerate() {
        let here = secrets.iter().filter(|secret| text[at..].starts_with(secret));
        if let Some(length) = here.map(|secret| secret.len()).max() {
            if at >= masked_until {
                out.extend(b"[secret:s]");
            }
            masked_until = masked_until.max(at + length);
        }
        if at >= masked_until {
            out.push(*byte);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// H7 and H8 at once: the expected text is known byte for byte.
    #[test]
    fn every_form_is_masked_and_nothing_else(
        secrets in proptest::collection::vec(secret(), 1..4),
        parts in proptest::collection::vec((filler(), 0_usize..7, any::<prop::sample::Index>()), 1..6),
        end in filler(),
        sizes in proptest::collection::vec(1_usize..40, 1..6),
    ) {
        let names: Vec<String> = (0..secrets.len()).map(|i| format!("s{i}")).collect();
        let named: Vec<(&str, &[u8])> =
            names.iter().map(String::as_str).zip(secrets.iter().map(Vec::as_slice)).collect();
        let masker = masker(&named);
        let (mut text, mut expected) = (Vec::new(), Vec::new());
        for (before, form, index) in &parts {
            let (name, value) = index.get(&named);
            // A space keeps what follows from extending a base64 form.
            text.extend([before, &b" "[..], &shown(value, *form), b" "].concat());
            expected.extend([before, format!(" [secret:{name}] ").as_bytes()].concat());
        }
        text.extend(&end);
        expected.extend(&end);
        // A secret inside another has the other's name; compare without names.
        let plain = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            (0..3).fold(text, |text, i| text.replace(&format!("[secret:s{i}]"), "[]"))
        };
        let whole = masker.mask(&text);
        prop_assert_eq!(plain(&whole), plain(&expected));
        prop_assert_eq!(&in_pieces(&masker, &text, &sizes), &whole);
    }

    /// A secret inside data that is encoded as a whole.
    #[test]
    fn base64_of_anything_around_a_secret_is_masked(
        secret in secret(), before in filler(), after in filler(),
        sizes in proptest::collection::vec(1_usize..40, 1..6),
    ) {
        let masker = masker(&[("s", &secret)]);
        let data = [&before[..], &secret, &after].concat();
        for text in [STANDARD.encode(&data), URL_SAFE_NO_PAD.encode(&data)] {
            let masked = masker.mask(text.as_bytes());
            prop_assert!(holds(&masked, b"[secret:s]"));
            prop_assert_eq!(in_pieces(&masker, text.as_bytes(), &sizes), masked.clone());
            // No decoder finds the secret again: what is left has too few of its characters.
            let left = text.len() - (masked.len() - b"[secret:s]".len());
            prop_assert!(left * 6 + 10 > secret.len() * 8);
        }
    }

    /// However a text is cut, it is masked alike; secrets, tokens and patterns are made to overlap.
    #[test]
    fn cuts_do_not_show(
        text in "(ab|abab|aba|ba|ababababa|babaabab|sk-|ghp_|a1B2c3D4e5F6g7H8|[abkx_ -]|zz){0,40}",
        sizes in proptest::collection::vec(1_usize..12, 1..8),
    ) {
        let secrets = [
            Secret::new("one", b"abababab").unwrap(),
            Secret::new("two", b"babaabab").unwrap(),
            Secret::new("three", b"H8sk-a1B2").unwrap(),
            Secret::new("four", b"ababababababx").unwrap(),
        ];
        let masker = Masker::new(&secrets, &[("p", r"(?:ba){2,5}x?"), ("q", r"\bz{2}\b")]).unwrap();
        let whole = masker.mask(text.as_bytes());
        prop_assert_eq!(in_pieces(&masker, text.as_bytes(), &sizes), whole.clone());
        for secret in [&b"abababab"[..], b"babaabab", b"H8sk-a1B2"] {
            prop_assert!(!holds(&whole, secret));
        }
    }

    /// Against a reference that is too simple to be wrong: secrets are windows of one sequence and
    /// the text is made of such windows, so that nearly everything overlaps.
    #[test]
    fn overlaps_leave_no_rest(
        windows in proptest::collection::vec((0_usize..18, 8_usize..14), 1..5),
        parts in proptest::collection::vec((0_usize..20, 1_usize..26), 0..6),
        sizes in proptest::collection::vec(1_usize..12, 1..8),
    ) {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let part = |(start, length): &(usize, usize)| &LETTERS[*start..(start + length).min(26)];
        let secrets: Vec<&[u8]> = windows.iter().map(part).collect();
        let text: Vec<u8> = parts.iter().flat_map(part).copied().collect();
        let named: Vec<(&str, &[u8])> = secrets.iter().map(|secret| ("s", *secret)).collect();
        let masked = in_pieces(&masker(&named), &text, &sizes);
        prop_assert_eq!(
            String::from_utf8(masked).unwrap(),
            String::from_utf8(reference(&text, &secrets)).unwrap()
        );
    }

    /// H8: signatures and other random data pass unchanged.
    #[test]
    fn bytes_without_secrets_are_unchanged(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        sizes in proptest::collection::vec(1_usize..40, 1..6),
    ) {
        let masker = masker(&[("s", b"correct horse battery")]);
        prop_assert_eq!(&masker.mask(&bytes), &bytes);
        let signature = STANDARD.encode(&bytes).into_bytes();
        prop_assert_eq!(&in_pieces(&masker, &signature, &sizes), &signature);
    }
}

/// A pattern's secret is found however the stream is cut, also where its matches overlap, and what
/// stands beside it passes at once.
#[test]
fn h7_what_a_pattern_finds_does_not_show_at_any_cut() {
    let masker =
        Masker::new(&[], &[("acme", "acme_[a-z]{6,12}"), ("pin", r"\bpin=[0-9]{4}\b")]).unwrap();
    let check = |text: &str, expected: &str| {
        for first in 0..=text.len() {
            let mut stream = masker.stream();
            let mut seen = stream.push(&text.as_bytes()[..first]);
            seen.extend(stream.push(&text.as_bytes()[first..]));
            seen.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&seen), expected, "{text} cut at {first}");
        }
    };
    check("x acme_secret y", "x [secret:acme] y");
    check("acme_secretacme_secret", "[secret:acme]");
    check("acme_acme_secretsecret", "acme_[secret:acme]");
    check("pin=1234, pin=12345", "[secret:pin], pin=12345");
    check("acme_short", "acme_short");
    // The control: without the patterns all of it passes.
    assert_eq!(Masker::new(&[], &[]).unwrap().mask(b"acme_secret"), b"acme_secret");
    let mut stream = masker.stream();
    assert_eq!(stream.push(b"nothing to see."), b"nothing to see.");
    assert_eq!(stream.push(b" pin=1234 "), b" [secret:pin] ");
    assert_eq!(stream.held_bytes(), 0);
}
