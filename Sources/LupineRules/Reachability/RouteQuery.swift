/// Questions to the kernel about one route or one interface, and its answers (rtnetlink(7)).
package enum RouteQuery {
  /// RTM_GETROUTE: how an address is reached.
  ///
  /// - Parameters:
  ///   - source: the address of this machine that is used, by which rules may choose; nil, or one of the other family: the kernel is to choose.
  ///   - link: for an address that means something on one link only; 0: none is given.
  package static func route(
    to address: InternetAddress, from source: InternetAddress? = nil, over link: UInt32 = 0
  ) -> [UInt8] {
    var attributes = attribute(1, address.bytes)
    let source = source?.family == address.family ? source : nil
    if let source { attributes += attribute(2, source.bytes) }
    if link != 0, address.isLinkLocal { attributes += attribute(4, Self.bytes(link)) }
    // rtmsg: family, lengths of destination and source, and zeros, which say nothing.
    let width = UInt8(address.family.width)
    let body = [address.family.rawValue, width, source == nil ? 0 : width] + [UInt8](repeating: 0, count: 9)
    return message(type: 26, body + attributes)
  }

  /// The interface that an answer to `route(to:from:over:)` names; nil: there is no route.
  package static func interface(in datagram: [UInt8]) -> UInt32? {
    guard let body = body(of: datagram, type: 24), body.count >= 12 else { return nil }
    for attribute in NetlinkAttributes(body.dropping(12)) where attribute.type == 4 {
      return attribute.value.uint32(at: 0)
    }
    return nil
  }

  /// RTM_GETLINK: what an interface is.
  package static func link(_ index: UInt32) -> [UInt8] {
    message(type: 18, [UInt8](repeating: 0, count: 4) + bytes(index) + [UInt8](repeating: 0, count: 8))
  }

  /// The interface of an answer to `link(_:)`.
  package static func link(in datagram: [UInt8]) -> NetworkLink? {
    for envelope in NetlinkDecoder.decode(datagram).messages {
      if case .link(let link) = envelope.message { return link }
    }
    return nil
  }

  /// The body of the first message, if it is of this type.
  private static func body(of datagram: [UInt8], type: UInt16) -> NetlinkBytes? {
    let all = NetlinkBytes(datagram[...])
    guard let length = all.uint32(at: 0), length >= 16, let message = all.prefix(Int(length)),
      message.uint16(at: 4) == type
    else { return nil }
    return message.dropping(16)
  }

  /// A header with NLM_F_REQUEST, and what follows it.
  private static func message(type: UInt16, _ body: [UInt8]) -> [UInt8] {
    bytes(UInt32(16 + body.count)) + bytes(type) + bytes(UInt16(0x1)) + bytes(UInt32(1)) + bytes(UInt32(0)) + body
  }

  /// rtattr: length, type, value; all of ours are of four or sixteen bytes.
  private static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
    bytes(UInt16(4 + value.count)) + bytes(type) + value
  }

  /// In the byte order of the machine.
  private static func bytes<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) -> [UInt8] {
    #if _endian(little)
    let ordered = number.byteSwapped
    #else
    let ordered = number
    #endif
    return (0..<Number.bitWidth / 8).map { UInt8(truncatingIfNeeded: ordered >> Number(Number.bitWidth - 8 - 8 * $0)) }
  }
}
