public import LupineSession

extension Session {
  /// A session whose exchanges go over `transport` instead of the network.
  ///
  /// - Parameter configure: sets what else is to differ from the default configuration.
  /// - Throws: `SessionError`, as `Session.init` does.
  public convenience init(over transport: any Transport, configure: (inout SessionConfiguration) -> Void = { _ in })
    throws(SessionError)
  {
    var configuration = SessionConfiguration()
    configuration.transport = transport
    configure(&configuration)
    try self.init(configuration)
  }
}
