package import LupineIO
package import LupineWire

/// What the floor above does with what arrives. Every method is called on the loop, in the order of the wire, and must not wait.
///
/// `transfer(_:didEndWith:)` is called exactly once, whatever happens, and is the last call.
package protocol TransferHandler: AnyObject {
  /// A 1xx response other than 100.
  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead)
  /// The final head. Call `transfer.discard()` here to have the body dropped.
  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming)
  /// Body bytes, decoded. The span is valid during the call. Call `transfer.pause()` to stop the socket.
  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>)
  /// The pipe into which the next body bytes may go instead of being shown, if they come fast and as they are; nil: they are shown. It is asked before each
  /// such read, and filled if it is empty.
  func pipe(for transfer: Transfer) -> BodyPipe?
  /// So many body bytes are in the pipe, behind all that were shown.
  func transfer(_ transfer: Transfer, didFillPipe count: Int)
  /// Trailer fields (RFC 9110 6.5).
  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection)
  /// So many body bytes of the request have been handed to the socket since the last call. Less than none: another attempt begins, and those of
  /// the one before do not count.
  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int)
  /// The end: nil when the response is complete.
  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?)
}

extension TransferHandler {
  /// None.
  package func pipe(for transfer: Transfer) -> BodyPipe? { nil }
  package func transfer(_ transfer: Transfer, didFillPipe count: Int) {
    preconditionFailure("whoever gives a pipe takes what comes in it")
  }
}
