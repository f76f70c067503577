//! How long a server asks to wait, from its response headers.

use hyper::HeaderMap;

/// Reads `retry-after-ms` (milliseconds), then `retry-after` (seconds or an HTTP date). A date is
/// measured from the response's own `date`, so a wrong clock here does no harm; `now_unix_s`
/// stands in when the response has none.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now_unix_s: u64) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(delay_ms) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(delay_ms);
    }
    let asked = text("retry-after")?;
    let delay_s = match seconds(asked) {
        Some(delay_s) => delay_s,
        None => {
            let now = text("date").and_then(http_date_unix_s).unwrap_or(now_unix_s);
            http_date_unix_s(asked)?.saturating_sub(now)
        }
    };
    delay_s.checked_mul(1000)
}

/// Whole seconds; a fraction is rounded up.
fn seconds(text: &str) -> Option<u64> {
    let Some((whole, fraction)) = text.split_once('.') else { return text.parse().ok() };
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let round_up = u64::from(fraction.bytes().any(|byte| byte != b'0'));
    if digits { whole.parse::<u64>().ok()?.checked_add(round_up) } else { None }
}

/// Seconds since 1970 of a date like `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that servers may
/// still write; the two older forms are not read.
fn http_date_unix_s(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let mut word = || words.next();
    let day: u64 = word()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month_name = word()?;
    let month = (1u64..).zip(MONTHS).find(|(_, name)| *name == month_name)?.0;
    let year: u64 = word()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = word()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if word()? != "GMT" || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 in the proleptic Gregorian calendar, counted in years that begin in March so
    // that the leap day comes last.
    let (march_year, march_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let days = (march_year * 365 + leap_days + day_of_year).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(http_date_unix_s(text), expected, "{text}");
        };
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Tue, 29 Feb 2000 12:00:00 GMT", Some(951_825_600));
        check("Fri, 31 Dec 2027 23:59:59 GMT", Some(1_830_297_599));
        check("Mon, 01 Mar 2100 00:00:00 GMT", Some(4_107_542_400));
        for bad in [
            "",
            "tomorrow",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 06 Nox 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn headers() {
        const NOW: u64 = 784_111_700;
        let check = |headers: &[(&'static str, &str)], expected: Option<u64>| {
            let map = headers
                .iter()
                .map(|(name, value)| {
                    (hyper::header::HeaderName::from_static(name), value.parse().unwrap())
                })
                .collect();
            assert_eq!(retry_after_ms(&map, NOW), expected, "{headers:?}");
        };
        check(&[], None);
        check(&[("retry-after", "2")], Some(2_000));
        check(&[("retry-after", " 0 ")], Some(0));
        check(&[("retry-after", "1.2")], Some(2_000));
        check(&[("retry-after", "1.0")], Some(1_000));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "99999999999999999999")], None);
        check(&[("retry-after", "18446744073709551615")], None);
        check(&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1_500));
        check(&[("retry-after-ms", "x"), ("retry-after", "9")], Some(9_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(77_000));
        check(
            &[
                ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("date", "Sun, 06 Nov 1994 08:49:30 GMT"),
            ],
            Some(7_000),
        );
        check(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0));
    }
}
