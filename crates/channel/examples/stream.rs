//! A file goes through a channel as a stream: `stream send FOLDER < IN` in one process, `stream receive FOLDER > OUT`
//! in another. The folder takes the two sections.
#![expect(clippy::print_stderr, reason = "an example reports")]

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use channel::{Endpoint, Layout, PeerSection, Section, Stream};

/// Long enough to start the other process by hand.
const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (me, peer, folder) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", folder] => (1, 2, folder),
        ["receive", folder] => (2, 1, folder),
        _ => return Err("wanted: stream send|receive FOLDER".into()),
    };
    let path = |number: u32| Path::new(folder).join(number.to_string());
    let section = Section::create(&path(me), &Layout::new(me).ring(peer, 1 << 20))?;
    let endpoint = Endpoint::connect(&section, peer, &wait_for(&path(peer))?, SOON)?;
    let mut stream = Stream::new(endpoint, SOON);
    let bytes = if me == 1 {
        let bytes = io::copy(&mut io::stdin().lock(), &mut stream)?;
        stream.finish()?;
        bytes
    } else {
        io::copy(&mut stream, &mut io::stdout().lock())?
    };
    eprintln!("{bytes} bytes");
    Ok(())
}

/// The other process may make its section later than we do.
fn wait_for(path: &Path) -> Result<PeerSection, channel::Error> {
    let started = Instant::now();
    loop {
        match Section::open(path) {
            Err(_) if started.elapsed() < SOON => std::thread::sleep(Duration::from_millis(5)),
            result => return result,
        }
    }
}
