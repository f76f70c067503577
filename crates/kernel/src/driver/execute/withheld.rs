//! What a look leaves out because the policy does not allow it: recorded, so that whoever judges another policy
//! by what was decided knows of it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use glasshouse_model::CanonicalPath;
use glasshouse_model::body::{Withheld, WithheldEntry};
use glasshouse_tools::sanitise::Masker;

/// Most entries that an event names.
const MAX_ENTRIES: usize = 1_000;
/// Most bytes of their names; an event has other members too.
const MAX_ENTRIES_BYTES: usize = 128 << 10;

/// Hears what is asked about the entries of one look.
pub(super) struct KeptBack<'a> {
    masker: &'a Masker,
    entries: RefCell<BTreeSet<WithheldEntry>>,
    bytes: RefCell<usize>,
    left_out: RefCell<u64>,
}

impl<'a> KeptBack<'a> {
    pub(super) fn new(masker: &'a Masker) -> Self {
        Self {
            masker,
            entries: RefCell::default(),
            bytes: RefCell::default(),
            left_out: RefCell::default(),
        }
    }

    /// Keeps an entry that is not allowed; answers whether it is.
    pub(super) fn hear(&self, syscall: &str, path: &CanonicalPath, is_allowed: bool) -> bool {
        if is_allowed {
            return true;
        }
        let entry = WithheldEntry { syscall: syscall.to_owned(), path: path.clone() };
        let mut entries = self.entries.borrow_mut();
        let bytes = *self.bytes.borrow() + path.as_str().len();
        // A name with a mask in it would be the name of another file.
        let is_plain = self.masker.mask_str(path.as_str()) == path.as_str();
        if is_plain && entries.len() < MAX_ENTRIES && bytes <= MAX_ENTRIES_BYTES {
            entries.insert(entry);
            *self.bytes.borrow_mut() = bytes;
        } else if !entries.contains(&entry) {
            *self.left_out.borrow_mut() += 1;
        }
        false
    }

    /// What was kept back, if anything was.
    pub(super) fn told(self) -> Option<Withheld> {
        let (entries, left_out) = (self.entries.into_inner(), self.left_out.into_inner());
        let is_any = !entries.is_empty() || left_out > 0;
        is_any.then(|| Withheld { entries: entries.into_iter().collect(), left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_back_is_told_within_bounds() {
        let masker = Masker::new(&[], &[]).unwrap();
        let check = |paths: &[&str], repeated: usize, entries: usize, left_out: u64| {
            let kept = KeptBack::new(&masker);
            for n in 0..repeated {
                for path in paths {
                    let path = CanonicalPath::parse(&path.replace('#', &n.to_string())).unwrap();
                    assert!(!kept.hear("fs.list", &path, false));
                    assert!(kept.hear("fs.read", &path, true));
                }
            }
            let told = kept.told().unwrap_or(Withheld { entries: Vec::new(), left_out: 0 });
            assert_eq!((told.entries.len(), told.left_out), (entries, left_out), "{paths:?}");
        };
        check(&[], 1, 0, 0);
        check(&[".env", "a/b"], 1, 2, 0);
        check(&[".env"], 3, 1, 0);
        check(&["f#"], MAX_ENTRIES + 2, MAX_ENTRIES, 2);
        let long = format!("{}/#", vec!["x".repeat(200); 10].join("/"));
        let fit = MAX_ENTRIES_BYTES / (long.len() + 1);
        let most = 200;
        assert!((10..most).contains(&fit));
        let kept = KeptBack::new(&masker);
        for n in 0..most {
            let path = CanonicalPath::parse(&long.replace('#', &n.to_string())).unwrap();
            kept.hear("fs.list", &path, false);
        }
        let told = kept.told().unwrap();
        assert!(told.left_out > 0 && told.entries.len() as u64 + told.left_out == most as u64);
    }
}
