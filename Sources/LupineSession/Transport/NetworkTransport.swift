/// The network, for transports that wrap it: what a session uses when `SessionConfiguration.transport` is nil.
///
/// Trust is decided by the `tls` of the configuration given here alone: `.sessionChallenge` is not asked, and a manager refuses policies that pin.
/// A session that is given this transport, or one around it, has no pool statistics. Several sessions may share the pool, which ends with the first of
/// them: after `invalidateAndCancel()` of one, what the others have under way fails with `.cancelled` and what they begin later with
/// `.sessionInvalidated`; after `finishTasksAndInvalidate()`, no connection is kept any more.
public final class NetworkTransport: Transport {
  private let transport: EngineTransport

  /// Makes a pool of connections as `configuration` says; its `transport` is not looked at.
  ///
  /// - Throws: `SessionError`: `.badRequest` for settings that contradict each other, `.system` if the engine cannot be started.
  public init(_ configuration: SessionConfiguration = SessionConfiguration()) throws(SessionError) {
    transport = try EngineTransport(configuration)
  }

  /// Begins an exchange on a connection of the pool. Callbacks come on the engine's thread; of several engines each calls on its own, so that those of different
  /// exchanges come at the same time.
  public func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    transport.start(request, receiver)
  }

  /// What it was made with.
  var configuration: SessionConfiguration { transport.configuration }

  /// Lets later requests go over new connections, without the TLS sessions of before.
  func reset() { transport.reset() }

  /// Closes every connection: at once, cancelling what is under way, or as it becomes idle.
  public func invalidate(cancelling: Bool) {
    transport.invalidate(cancelling: cancelling)
  }
}
