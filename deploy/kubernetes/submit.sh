#!/bin/sh
# Starts the driver as a pod. Once: kubectl apply -f cluster.yaml. API_SERVER: https://HOST:PORT of the cluster.
exec spark-submit \
  --master "k8s://${API_SERVER:?set it to https://HOST:PORT of the cluster}" \
  --deploy-mode cluster \
  --name orders \
  --conf spark.kubernetes.namespace=orders \
  --conf spark.kubernetes.container.image=registry.example.com/orders:1 \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=spark \
  --conf spark.kubernetes.driver.secretKeyRef.KAFKA_PASSWORD=kafka:password \
  --conf spark.kubernetes.executor.secretKeyRef.KAFKA_PASSWORD=kafka:password \
  --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.checkpoints.options.claimName=checkpoints \
  --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.checkpoints.mount.path=/checkpoints \
  --conf spark.kubernetes.executor.volumes.persistentVolumeClaim.checkpoints.options.claimName=checkpoints \
  --conf spark.kubernetes.executor.volumes.persistentVolumeClaim.checkpoints.mount.path=/checkpoints \
  --conf spark.executor.instances=3 \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=2g \
  --conf spark.executor.memoryOverhead=2g \
  --conf spark.kubernetes.submission.waitAppCompletion=false \
  local:///opt/job/orders.py
