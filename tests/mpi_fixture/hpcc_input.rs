//! The input file of the HPC Challenge suite.

use std::fmt::Write;

/// One system of order `n` in blocks of `block`, on a grid of `1 x ranks`; HPL's own recommendations for the rest.
pub fn input(n: u32, block: u32, ranks: u32) -> String {
    let lines = [
        "HPLinpack benchmark input file".to_owned(),
        format!("order {n}, 1 x {ranks}"),
        "HPL.out output file name".to_owned(),
        "8 device out".to_owned(),
        "1 number of problem sizes".to_owned(),
        format!("{n} Ns"),
        "1 number of NBs".to_owned(),
        format!("{block} NBs"),
        "0 PMAP".to_owned(),
        "1 number of process grids".to_owned(),
        "1 Ps".to_owned(),
        format!("{ranks} Qs"),
        "16.0 threshold".to_owned(),
        "1 number of panel factorisations".to_owned(),
        "2 PFACTs".to_owned(),
        "1 number of recursive stopping criteria".to_owned(),
        "4 NBMINs".to_owned(),
        "1 number of panels in recursion".to_owned(),
        "2 NDIVs".to_owned(),
        "1 number of recursive panel factorisations".to_owned(),
        "1 RFACTs".to_owned(),
        "1 number of broadcasts".to_owned(),
        "1 BCASTs".to_owned(),
        "1 number of lookahead depths".to_owned(),
        "1 DEPTHs".to_owned(),
        "2 SWAP".to_owned(),
        "64 swapping threshold".to_owned(),
        "0 L1 form".to_owned(),
        "0 U form".to_owned(),
        "1 equilibration".to_owned(),
        "8 memory alignment".to_owned(),
        "##### separator #####".to_owned(),
        "0 further sizes for PTRANS".to_owned(),
        "1200 values of N".to_owned(),
        "0 further block sizes for PTRANS".to_owned(),
        "40 values of NB".to_owned(),
    ];
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}
