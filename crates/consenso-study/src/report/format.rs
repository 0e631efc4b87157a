//! Numbers and text as a reader sees them.

pub use consenso_engine::queries::escape::html as escape;
use std::fmt::Write as _;

/// A number with so many significant digits, rounded to nearest: `0.0123`, `1.23·10⁻⁷`, `∞`, or a
/// dash where there is none.
pub fn number(value: f64, digits: usize) -> String {
    special(value).unwrap_or_else(|| {
        let (mantissa, exponent) = digits_of(value, digits);
        positional(mantissa, exponent, digits)
    })
}

/// An ε with three significant digits, rounded **up**: what is printed is never less than what was
/// certified.
pub fn epsilon(value: f64) -> String {
    special(value).unwrap_or_else(|| {
        let (mut mantissa, mut exponent) = digits_of(value, 3);
        // The comparison is with what a reader would type, so 0.3 stays 0.300.
        let typed: f64 = format!("{mantissa}e{}", exponent - 2).parse().unwrap_or(f64::INFINITY);
        if typed < value {
            mantissa += 1;
        }
        if mantissa == 1000 {
            (mantissa, exponent) = (100, exponent + 1);
        }
        positional(mantissa, exponent, 3)
    })
}

/// A number exactly, as short as it can be: `10⁻⁶`, `0.001`, `2.5·10⁻⁷`.
pub fn exact(value: f64) -> String {
    special(value).unwrap_or_else(|| {
        if value == 0.0 || (1e-3..1e5).contains(&value.abs()) {
            return minus(&format!("{value}"));
        }
        scientific(value)
    })
}

/// A number as somebody wrote it, or three digits of one that was computed.
pub(super) fn written(value: f64) -> String {
    let whole = exact(value);
    if whole.chars().count() <= 9 { whole } else { number(value, 3) }
}

/// A number exactly, with an exponent: `10⁻⁴`, `2·10³`; but `1`, not `10⁰`.
pub(super) fn scientific(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, "0")) => minus(mantissa),
        Some((mantissa, exponent)) => power(mantissa, exponent.parse().unwrap_or(0)),
        None => minus(&text),
    }
}

/// The label of a tick, given the distance to its neighbour.
pub(super) fn tick(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    // The epsilon undoes what the logarithm of a power of ten may lose.
    let decimals = -(step.abs().log10() + 1e-9).floor() as i32;
    if largest < 1e6 && decimals <= 4 {
        return minus(&format!("{value:.*}", decimals.max(0) as usize));
    }
    let digits = (largest.log10().floor() as i32 + decimals).max(0) as usize;
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    power(mantissa, exponent.parse().unwrap_or(0))
}

/// `m·10ᵉ`, without the mantissa where it is 1.
pub(super) fn power(mantissa: &str, exponent: i32) -> String {
    let mut text = match mantissa {
        "1" => String::from("10"),
        "-1" => String::from("−10"),
        _ => format!("{}·10", minus(mantissa)),
    };
    for c in exponent.to_string().chars() {
        text.push(match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        });
    }
    text
}

/// A share as a percentage with one decimal, without its sign.
pub fn percent(share: f64) -> String {
    special(share).unwrap_or_else(|| minus(&format!("{:.1}", 100.0 * share)))
}

/// Seconds, as long as they need to be.
pub(super) fn seconds(value: f64) -> String {
    match special(value) {
        Some(text) => text,
        None if value < 0.01 => "< 0.01 s".into(),
        None if value < 100.0 => format!("{} s", number(value, 2)),
        None if value < 6000.0 => format!("{:.0} min", value / 60.0),
        None => format!("{:.1} h", value / 3600.0),
    }
}

/// `1 run`, `2 runs`; thousands apart.
pub fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `30 162`, with thin spaces that do not break.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (k, c) in digits.chars().enumerate() {
        if k > 0 && digits.len() > 4 && (digits.len() - k).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// A coordinate: a tenth of a pixel is what shows, and trailing zeros are bytes.
pub(super) fn coordinate(out: &mut String, value: f64) {
    let start = out.len();
    let _ = write!(out, "{value:.1}");
    if out.ends_with(".0") {
        out.truncate(out.len() - 2);
    }
    if &out[start..] == "-0" {
        out.replace_range(start.., "0");
    }
}

fn special(value: f64) -> Option<String> {
    let text = match value {
        v if v.is_nan() => "–",
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "−∞",
        _ => return None,
    };
    Some(text.into())
}

/// An integer mantissa of so many digits and the exponent of its first, from the correctly rounded
/// decimal expansion.
fn digits_of(value: f64, digits: usize) -> (i64, i32) {
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', "").parse().unwrap_or(0), exponent.parse().unwrap_or(0))
}

fn positional(mantissa: i64, exponent: i32, digits: usize) -> String {
    let sign = if mantissa < 0 { "−" } else { "" };
    let text = mantissa.unsigned_abs().to_string();
    if mantissa == 0 {
        return "0".into();
    }
    match exponent {
        // Between the last digit and 1e5 zeros fill up.
        0..5 if exponent as usize + 1 >= digits => {
            format!("{sign}{text}{}", "0".repeat(exponent as usize + 1 - digits))
        }
        0..5 => format!("{sign}{}.{}", &text[..=exponent as usize], &text[exponent as usize + 1..]),
        -4..0 => format!("{sign}0.{}{text}", "0".repeat((-exponent - 1) as usize)),
        _ if digits == 1 => power(&format!("{sign}{text}"), exponent),
        _ => power(&format!("{sign}{}.{}", &text[..1], &text[1..]), exponent),
    }
}

/// The typographical minus.
fn minus(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(0.012_345, 3), "0.0123");
        assert_eq!(number(-2.654, 3), "−2.65");
        assert_eq!(number(123.4, 3), "123");
        assert_eq!(number(98_765.0, 3), "98800");
        assert_eq!(number(1.234e-7, 3), "1.23·10⁻⁷");
        assert_eq!(number(9.999, 3), "10.0");
        assert_eq!((number(f64::NAN, 3), number(f64::NEG_INFINITY, 3)), ("–".into(), "−∞".into()));
        assert_eq!(
            (number(0.0, 3), exact(1e-6), exact(0.001)),
            ("0".into(), "10⁻⁶".into(), "0.001".into())
        );
        assert_eq!((percent(0.7543), thousands(30_162)), ("75.4".into(), "30\u{202f}162".into()));
        assert_eq!(tick(-0.25, 0.05, 1.0), "−0.25");
        assert_eq!((tick(2e6, 1e6, 3e6), tick(0.1, 0.1, 0.5)), ("2·10⁶".into(), "0.1".into()));
        assert_eq!(tick(2.5e-7, 5e-8, 3e-7), "2.5·10⁻⁷");
    }

    #[test]
    fn an_epsilon_rounds_up_and_only_when_it_must() {
        assert_eq!(epsilon(0.3), "0.300");
        assert_eq!(epsilon(1.0), "1.00");
        assert_eq!(epsilon(1.000_000_000_000_000_2), "1.01");
        assert_eq!(epsilon(0.999_01), "1.00");
        assert_eq!(epsilon(4.451), "4.46");
        assert_eq!(epsilon(f64::INFINITY), "∞");
    }

    proptest! {
        #[test]
        fn a_printed_epsilon_is_never_too_small(value in 1e-4..9e4f64) {
            let printed: f64 = epsilon(value).parse().expect("positional in this range");
            prop_assert!(printed >= value && printed <= value * 1.0101, "{value} printed as {printed}");
        }
    }
}
