import io.debezium.embedded.KafkaConnectUtil;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.FileOffsetBackingStore;

/**
 * The engine's place in a file that a kill -9 cannot empty.
 *
 * <p>Kafka's own store writes its file in place and takes an empty one for a new beginning: killed between the two, the
 * engine would take a second snapshot and never send the changes before it. Here each state is written aside and renamed.
 */
public final class KeptOffsets extends FileOffsetBackingStore {
  private Path aside;
  private Path kept;

  public KeptOffsets() {
    super(KafkaConnectUtil.converterForOffsetStore());
  }

  @Override
  public void configure(WorkerConfig config) {
    super.configure(config);
    aside = Path.of(config.getString("offset.storage.file.filename"));
    kept = aside.resolveSibling(aside.getFileName() + ".kept");
  }

  @Override
  public synchronized void start() {
    try {
      Files.deleteIfExists(aside);
      if (Files.exists(kept)) Files.copy(kept, aside);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    super.start();
  }

  @Override
  protected void save() {
    super.save();
    try {
      Files.move(aside, kept, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }
}
