//! The six digits that one machine shows and a person types on the other.

use std::fmt;
use std::str::FromStr;

const N_DIGITS: usize = 6;

/// A pairing code. Short, so it must never be checked against anything but a live exchange that counts its tries.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Code([u8; N_DIGITS]);

impl Code {
    /// Every code is equally likely.
    pub(super) fn random() -> Self {
        let number: u32 = rand::random_range(0..1_000_000);
        let mut digits = [0; N_DIGITS];
        digits.copy_from_slice(format!("{number:06}").as_bytes());
        Self(digits)
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For the screen of the machine that shows it.
    pub(super) fn digits(&self) -> String {
        self.0.iter().map(|digit| char::from(*digit)).collect()
    }
}

impl fmt::Debug for Code {
    /// Codes do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(******)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotSixDigits;

impl FromStr for Code {
    type Err = NotSixDigits;

    /// As people type it: `123456`, `123 456`, `123-456`.
    fn from_str(typed: &str) -> Result<Self, NotSixDigits> {
        /// Nobody types more around six digits.
        const TYPED_LEN_MAX: usize = 32;
        if typed.len() > TYPED_LEN_MAX {
            return Err(NotSixDigits);
        }
        let digits: Vec<u8> = typed.bytes().filter(|byte| !b" -".contains(byte)).collect();
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(NotSixDigits);
        }
        digits.try_into().map(Self).map_err(|_| NotSixDigits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_type_them() {
        let code: Code = "012345".parse().unwrap();
        for typed in ["012 345", " 012345 ", "012-345", "0 1 2 3 4 5"] {
            assert_eq!(typed.parse(), Ok(code.clone()), "{typed}");
        }
        for typed in ["", "12345", "1234567", "12345a", "٠١٢٣٤٥", &" ".repeat(99)] {
            assert_eq!(typed.parse::<Code>(), Err(NotSixDigits), "{typed}");
        }
        assert_eq!(code.digits(), "012345");
        assert_eq!(format!("{code:?}"), "Code(******)");
        let random = Code::random();
        assert_eq!(random.digits().parse(), Ok(random));
    }
}
