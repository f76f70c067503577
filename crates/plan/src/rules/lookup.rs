//! A name table built by the compiler: finding a row costs one small hash and one comparison.

/// Twice the largest table, so that probing stays short.
const SLOTS: usize = 512;

/// Maps names to their position in the list the index was built from.
pub(crate) struct Index {
    /// Position plus one; 0 is empty.
    slots: [u8; SLOTS],
}

impl Index {
    pub(crate) const fn build(names: &[&str]) -> Self {
        assert!(names.len() < SLOTS / 2, "the table needs more slots");
        let mut slots = [0; SLOTS];
        let mut position: u8 = 0;
        while (position as usize) < names.len() {
            let mut at = hash(names[position as usize].as_bytes());
            while slots[at] != 0 {
                at = (at + 1) % SLOTS;
            }
            slots[at] = position + 1;
            position += 1;
        }
        Self { slots }
    }

    pub(crate) fn find(&self, names: &[&str], name: &str) -> Option<u8> {
        let mut at = hash(name.as_bytes());
        loop {
            let position = self.slots[at].checked_sub(1)?;
            if names[position as usize] == name {
                return Some(position);
            }
            at = (at + 1) % SLOTS;
        }
    }
}

/// Length, ends and middle tell the names of HTML apart well enough.
const fn hash(name: &[u8]) -> usize {
    let len = name.len();
    if len == 0 {
        return 0;
    }
    let first = name[0] as usize;
    let middle = name[len / 2] as usize;
    let last = name[len - 1] as usize;
    (len * 61 + first * 37 + middle * 101 + last * 7) % SLOTS
}
