//! `hpccoutf.txt` of the HPC Challenge suite: lines of `name=value`.

/// What is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hpcc {
    /// Order of HPL's system.
    pub n: u32,
    /// HPL, operations per second.
    pub hpl_per_s: f64,
    /// STREAM's copy by one process, bytes per second.
    pub copy_bytes_per_s: f64,
    /// Bytes of each of STREAM's arrays.
    pub array_bytes: u64,
}

/// Reads a whole output file.
pub fn parse(text: &str) -> Result<Hpcc, String> {
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.trim().parse::<f64>().ok())
            .ok_or_else(|| format!("hpcc's output has no {name}"))
    };
    if value("Success")? < 1.0 {
        return Err("hpcc says that it failed".to_owned());
    }
    let (n, time) = (value("HPL_N")?, value("HPL_time")?);
    if time <= 0.0 {
        return Err("hpcc's HPL took no time".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    let (order, words) = (n as u32, value("STREAM_VectorSize")? as u64);
    Ok(Hpcc {
        n: order,
        hpl_per_s: (2.0 / 3.0 * n.powi(3) + 1.5 * n * n) / time,
        copy_bytes_per_s: value("SingleSTREAM_Copy")? * 1e9,
        array_bytes: words * 8,
    })
}
