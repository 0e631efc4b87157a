//! The shell of every page: one file that works offline, with scripts or without.

use super::chart;
use super::figure::dark_style;
use super::format::escape;

const STYLE: &str = include_str!("style.css");

/// What a browser may do with the page: nothing but show it and run what is in it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A whole page around the HTML of its `main`. The title is text.
pub(super) fn shell(title: &str, version: &str, main: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"generator\" content=\"consenso {version}\"/>\n\
         <title>{title} – consenso</title>\n<style>{uplot}\n{STYLE}{dark}</style>\n</head>\n<body>\n<main>\n\
         {main}</main>\n{scripts}</body>\n</html>\n",
        version = escape(version),
        title = escape(title),
        uplot = chart::style(),
        dark = dark_style(),
        scripts = chart::scripts(),
    )
}
