//! Numbers are doubles with one canonical form, so that equal values print equal bytes.

use serde_json::{Number, Value};

/// Largest whole number that a double tells apart from its neighbours.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// The JSON value of a double: whole numbers as integers, never a negative zero; `None` when it is
/// not finite.
#[expect(clippy::cast_possible_truncation, reason = "guarded: whole and within 2^53")]
pub(crate) fn canonical(value: f64) -> Option<Value> {
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

/// The text of a double as scripts in a browser print it: plain digits between 1e-7 and 1e21,
/// exponents outside.
pub(crate) fn to_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    let point = exponent + 1;
    let body = match usize::try_from(point) {
        Ok(point) if (1..=21).contains(&point) => {
            if digits.len() <= point {
                format!("{digits}{}", "0".repeat(point - digits.len()))
            } else {
                format!("{}.{}", &digits[..point], &digits[point..])
            }
        }
        _ if (-5..=0).contains(&point) => {
            format!("0.{}{digits}", "0".repeat(usize::try_from(-point).unwrap_or(0)))
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let plus = if exponent < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{plus}{}", exponent.abs())
        }
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_a_browser_does() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.5e300, "1.5e+300"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (123_456.75, "123456.75"),
        ] {
            assert_eq!(to_text(value), want);
        }
    }

    #[test]
    fn whole_numbers_have_one_form() {
        assert_eq!(canonical(2.0), Some(Value::from(2)));
        assert_eq!(canonical(-0.0), Some(Value::from(0)));
        assert_eq!(canonical(f64::INFINITY), None);
    }
}
