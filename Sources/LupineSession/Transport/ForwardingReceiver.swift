package import LupineWire

/// A receiver that stands before another one: what it does not take itself is passed on as it comes. It tells of the end itself.
package protocol ForwardingReceiver: TransportReceiver {
  /// Who is told.
  var receiver: any TransportReceiver { get }
}

extension ForwardingReceiver {
  package func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    receiver.receive(informational: head, of: exchange)
  }

  package func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    receiver.receive(head: head, framing: framing, of: exchange)
  }

  package func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    receiver.receive(body: bytes, of: exchange)
  }

  package func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    receiver.receive(trailers: trailers, of: exchange)
  }

  package func sent(bodyBytes count: Int, of exchange: any TransportExchange) {
    receiver.sent(bodyBytes: count, of: exchange)
  }
}
