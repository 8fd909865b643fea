//! Networks in CIDR notation, and which addresses lie in them.

use core::net::IpAddr;

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    base: IpAddr,
    bits: u32,
}

impl Cidr {
    /// Reads `10.0.0.0/8` or `fd00::/8`; none for anything else, such as a network whose other bits
    /// are not zero.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let base: IpAddr = base.parse().ok()?;
        if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let bits: u32 = bits.parse().ok()?;
        let (width, value) = wide(base);
        let rest = width.checked_sub(bits)?;
        (head(value, rest) == value).then_some(Self { base, bits })
    }

    /// True for the text of an address of the network. An IPv4 address that is written as an IPv6
    /// one (`::ffff:10.0.0.1`) is the IPv4 address.
    pub(super) fn holds(self, text: &str) -> bool {
        let Ok(address) = text.trim().parse::<IpAddr>() else {
            return false;
        };
        let ((width, base), (own_width, value)) = (wide(self.base), wide(address.to_canonical()));
        width == own_width && head(value, width.saturating_sub(self.bits)) == base
    }
}

/// An address as its width in bits and its value.
fn wide(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, address.to_bits().into()),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

/// The value with its last bits set to zero.
fn head(value: u128, rest: u32) -> u128 {
    value.checked_shr(rest).and_then(|head| head.checked_shl(rest)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_networks() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.168.1.0/24", "::ffff:192.168.1.9", "192.168.2.1"),
            ("127.0.0.1/32", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("::/0", "fe80::1", "8.8.8.8"),
            ("fd00::/8", "fdab::1", "fe00::1"),
        ] {
            let network = Cidr::parse(network).unwrap();
            assert!(network.holds(inside) && !network.holds(outside), "{network:?}");
        }
        assert!(!Cidr::parse("10.0.0.0/8").unwrap().holds("10.0.0.1.example.org"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0",
            "10.0.0.0/+8",
            "x/8",
            "::/129",
            "/8",
            "1.2.3.4/",
        ] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }
}
