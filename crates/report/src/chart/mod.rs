//! Pictures for the page: inline SVG, drawn by `plotters`, made fit for themes, phones and print.
//!
//! Everything is drawn once, in fixed colours; the style sheet maps each colour to the theme's (see [`palette`]).
//! Points are thinned to what a picture can show (see [`thin`]); extremes always stay.

mod across;
pub mod axis;
pub mod bars;
pub mod columns;
pub mod gantt;
pub mod lanes;
pub mod palette;
pub mod plot;
pub mod svg;
pub mod thin;
