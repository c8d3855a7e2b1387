/// The way back to a connection from whatever opens it; the connection cuts it when it is open or ends. Lives on the loop.
///
/// Not a weak reference: an object that ever had one counts its references the long way until its end.
final class ConnectionLink {
  private(set) var connection: Connection?

  init(_ connection: Connection) {
    self.connection = connection
  }

  func cut() {
    connection = nil
  }
}
