//! Figures as PNG, in builds with the feature `png`.
//!
//! A feature, and off: the renderer and its text shaping are some fifty crates that every build
//! would compile for a flag few people set.

use anyhow::Result;

/// Refuses `--png` where it cannot be honoured.
#[cfg(not(feature = "png"))]
pub(crate) fn check() -> Result<()> {
    anyhow::bail!(
        "--png: this build cannot write PNG; the SVG figures hold the same\n  help: cargo install --locked --path crates/consenso-cli --features png"
    )
}

#[cfg(not(feature = "png"))]
pub(crate) fn render(_: &str) -> Result<Vec<u8>> {
    check().map(|()| Vec::new())
}

#[cfg(feature = "png")]
pub(crate) fn check() -> Result<()> {
    Ok(())
}

/// Twice the size of the SVG, in the light palette.
#[cfg(feature = "png")]
pub(crate) fn render(svg: &str) -> Result<Vec<u8>> {
    use anyhow::Context as _;
    use resvg::{tiny_skia, usvg};
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    // Where the figure's fonts are missing, the first sans-serif of the system does.
    let sans = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];
    let known = |name: &&&str| {
        options.fontdb.faces().any(|face| face.families.iter().any(|(family, _)| family == **name))
    };
    if let Some(name) = sans.iter().find(known) {
        let name = (*name).to_owned();
        options.fontdb_mut().set_sans_serif_family(name);
    }
    let tree = usvg::Tree::from_str(svg, &options).context("a figure is not SVG")?;
    let size = tree.size().to_int_size().scale_by(2.0).context("a figure has no size")?;
    let mut pixels =
        tiny_skia::Pixmap::new(size.width(), size.height()).context("a figure has no size")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(2.0, 2.0), &mut pixels.as_mut());
    pixels.encode_png().context("a figure cannot be written as PNG")
}
