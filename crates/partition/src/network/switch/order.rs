//! What a switch is to do, as words of a command line: whoever starts one writes them, the switch reads them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::core::{PlugNumber, Rules, TRUNK};
use platforms::wall::{self, Rights};
use units::Reason;

/// The switch of one link of a network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchOrder {
    /// Folder of the link, 0700 and our own: every `NUMBER.sock` in it is a plug.
    pub folder: PathBuf,
    /// First five bytes of the hardware addresses: the plug with number `n` may send as `prefix:n` only, and as the internet
    /// addresses that go with it. Without them every plug may use any address.
    pub prefix: Option<[u8; 5]>,
    /// Bytes per second that are taken from a plug at most.
    pub rates: BTreeMap<PlugNumber, u64>,
    /// The way to the switch of the other link.
    pub trunk: Option<Trunk>,
    /// File to which is written, once a second when something changed, what was counted; it is there when the switch
    /// is ready, and gone when it ended.
    pub state: Option<PathBuf>,
}

/// One of two switches listens, the other one dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trunk {
    /// This one listens at a socket that it makes.
    At(PathBuf),
    /// This one dials, again and again until the other is there.
    To(PathBuf),
}

/// What the command line looks like.
pub const USAGE: &str = "switch --folder DIR [--prefix 02:4b:0a:4d:01] [--rate NUMBER=BYTES_PER_S]… \
                         [--trunk-at PATH | --trunk-to PATH] [--state PATH]";

impl SwitchOrder {
    /// The words after the program's name.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["switch".into(), "--folder".into(), self.folder.clone().into()];
        let mut add = |name: &str, value: OsString| words.extend([name.into(), value]);
        if let Some(prefix) = self.prefix {
            let bytes: Vec<String> = prefix.iter().map(|byte| format!("{byte:02x}")).collect();
            add("--prefix", bytes.join(":").into());
        }
        for (number, rate) in &self.rates {
            add("--rate", format!("{number}={rate}").into());
        }
        match &self.trunk {
            Some(Trunk::At(path)) => add("--trunk-at", path.into()),
            Some(Trunk::To(path)) => add("--trunk-to", path.into()),
            None => {}
        }
        if let Some(path) = &self.state {
            add("--state", path.into());
        }
        words
    }

    /// A command that runs it behind a wall: it sees the folder of its link, and that of its trunk. To be started with
    /// [`wall::start`].
    pub fn walled(&self, exe: &Path) -> Command {
        const PROGRAM: &str = "/bulkhead";
        let mut around = wall::Order { or_as_caller: true, local_sockets: true, ..wall::Order::default() };
        around.show(exe, PROGRAM, Rights::Execute);
        around.show(&self.folder, &self.folder, Rights::Write);
        let trunk = match &self.trunk {
            Some(Trunk::At(path) | Trunk::To(path)) => path.parent(),
            None => None,
        };
        if let Some(folder) = trunk.filter(|folder| *folder != self.folder) {
            around.show(folder, folder, Rights::Write);
        }
        around.words = std::iter::once(PROGRAM.into()).chain(self.words()).collect();
        wall::command(exe, &around)
    }

    /// Reads the words after `switch`.
    ///
    /// # Errors
    /// What was wanted and got.
    pub fn parse(words: &[OsString]) -> Result<Self, Reason> {
        let mut order = Self::default();
        let (pairs, rest) = words.as_chunks::<2>();
        if let Some(word) = rest.first() {
            return Err(format!("wanted a value after {}; {USAGE}", word.display()).into());
        }
        for [name, value] in pairs {
            match name.to_str() {
                Some("--folder") => order.folder = value.into(),
                Some("--prefix") => order.prefix = Some(prefix(value)?),
                Some("--rate") => {
                    let (number, rate) = rate(value)?;
                    order.rates.insert(number, rate);
                }
                Some("--trunk-at") => order.trunk = Some(Trunk::At(value.into())),
                Some("--trunk-to") => order.trunk = Some(Trunk::To(value.into())),
                Some("--state") => order.state = Some(value.into()),
                _ => return Err(format!("unknown word {}; {USAGE}", name.display()).into()),
            }
        }
        if order.folder.as_os_str().is_empty() {
            return Err(format!("wanted --folder; {USAGE}").into());
        }
        Ok(order)
    }

    /// What a plug may do. What comes over the trunk was checked where it came in.
    pub fn rules(&self, number: PlugNumber) -> Rules {
        if number == TRUNK {
            return Rules::default();
        }
        let address = self.prefix.map(|[a, b, c, d, e]| [a, b, c, d, e, number]);
        Rules { address, bytes_per_s: self.rates.get(&number).copied() }
    }
}

fn prefix(text: &OsStr) -> Result<[u8; 5], Reason> {
    let wanted =
        || format!("wanted five bytes of a hardware address such as 02:4b:0a:4d:01, got {}", text.display());
    let two_digits = |word: &str| {
        let plain = word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(word, 16).ok().filter(|_| plain)
    };
    let bytes: Option<Vec<u8>> = text.to_str().ok_or_else(wanted)?.split(':').map(two_digits).collect();
    let bytes: [u8; 5] = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(wanted)?;
    if bytes[0] & 1 != 0 { Err(wanted().into()) } else { Ok(bytes) }
}

fn rate(text: &OsStr) -> Result<(PlugNumber, u64), Reason> {
    let pair = text.to_str().and_then(|text| text.split_once('='));
    let pair = pair.and_then(|(number, rate)| Some((number.parse().ok()?, rate.parse().ok()?)));
    pair.filter(|(number, rate)| *number > 0 && *rate > 0)
        .ok_or_else(|| format!("wanted NUMBER=BYTES_PER_S, both above 0, got {}", text.display()).into())
}
